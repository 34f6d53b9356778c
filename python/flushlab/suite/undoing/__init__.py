"""Undo: what a test has committed, taken back by the server's own binary log.

Suite layer, on `server`. The server logs rows with all their columns. A reset reads what was logged since
the last one, turned around by `_core.invert_binlog`. It applies that on a connection of its own, unlogged.
Automatic numbers and global variables are set back. The application's connections stay, unless they hold a
transaction.

Exact or not at all: what the log does not tell, the server's counters do. Statements that change more than
rows, rows that were not logged, a transaction that does not end, a failure: `CannotUndo` names the first,
and the caller replaces the server. What was undone is compared with the template by checksum.
"""

from flushlab.suite.undoing.traces import CannotUndo, RowsNeeded, UndoneWrongly
from flushlab.suite.undoing.undoing import Undoing, Undone
