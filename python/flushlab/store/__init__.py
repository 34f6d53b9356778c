"""Store: every record saved as it is made, in one SQLite file."""

from flushlab.store.location import existing_store, open_store
from flushlab.store.store import CampaignRow, State, Store, new_id

__all__ = ["CampaignRow", "State", "Store", "existing_store", "new_id", "open_store"]
