"""Remote: servers of somebody's own, reached by an address; what is changed there is put back."""
