from __future__ import annotations

import os
import subprocess

from flushlab.machine import proc_stat


def test_fields_are_found_behind_a_name_with_parentheses_and_spaces() -> None:
    fields = proc_stat.parse(f"42 (a) b ) S {' '.join(str(number) for number in range(4, 53))}\n")
    assert fields[proc_stat.STATE] == "S"
    assert fields[proc_stat.START_TICKS] == "22"


def test_the_kernel_says_who_the_parent_is_and_nothing_of_a_process_that_is_gone() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        found = proc_stat.fields(child.pid)
        assert found is not None and found[proc_stat.PARENT] == str(os.getpid())
        assert found[proc_stat.SESSION] == str(os.getsid(0))
    assert proc_stat.fields(child.pid) is None
