"""Machine: what flushlab runs on: home folder, servers' user, processors, memory, devices, pressure."""

from flushlab.machine.cgroup import available_memory_bytes, memory_bytes
from flushlab.machine.describe import cpu_count, describe, describe_client, threads_left
from flushlab.machine.home import (
    ServerUser,
    home,
    home_part,
    home_path,
    is_open_to_all,
    make_open,
    may_enter,
    may_write,
    run_as,
    server_user,
    state,
    state_path,
)
from flushlab.machine.mounts import BlockDevice, FileSystem, file_system_of
from flushlab.machine.pressure import MachineSample, Pressure, between, sample
