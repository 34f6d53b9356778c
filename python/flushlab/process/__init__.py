"""Process: guarded children, so that no server outlives flushlab."""

from flushlab.process.guard import Guard, GuardedProcess, Network, Reach
from flushlab.process.identity import ProcessIdentity, identify, myself, terminate
from flushlab.process.run_record import (
    RunRecord,
    all_records,
    discard,
    make_lasting,
    passing_folder,
    reap,
    run_folder,
)
