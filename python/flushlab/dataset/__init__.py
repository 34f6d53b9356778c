"""The user's own data as the start of every trial: dumps, backups and data directories, as tools leave them.

Sits beside `workload`. What is there is looked at before anything is started (`open_dataset`, `survey`);
`loaded` makes the snapshot, once, and finds it again by content.
"""

from flushlab.dataset.directory import Directory
from flushlab.dataset.loaded import Dataset, analyze, choose_database, estimated_bytes, loaded, open_dataset
from flushlab.dataset.survey import Survey
