"""Store: every record saved as it is made, in one SQLite file."""

from flushlab.store.store import CampaignRow, State, Store, existing_store, new_id, open_store, unreadable
