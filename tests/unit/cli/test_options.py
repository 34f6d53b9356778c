"""Options that several commands share."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from flushlab.cli import options


@pytest.mark.parametrize("option", [options.Base, options.DataRoot, options.Dataset])
def test_a_path_that_cannot_be_read_is_left_to_those_who_open_it_and_know_what_it_is_for(option: Any) -> None:
    _, declared = get_args(option)
    assert not declared.readable
