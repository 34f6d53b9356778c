"""Store: every record saved as it is made, in one SQLite file."""

from flushlab.store.store import CampaignRow, Store

__all__ = ["CampaignRow", "Store"]
