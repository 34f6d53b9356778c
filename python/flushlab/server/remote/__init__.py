"""Remote: the user's own servers, reached by an address; flushlab puts back what it changes there."""
