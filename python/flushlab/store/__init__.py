"""Store: every record saved as it is made, in one SQLite file."""

from flushlab.store.store import CampaignRow, State, Store, new_id

__all__ = ["CampaignRow", "State", "Store", "new_id"]
