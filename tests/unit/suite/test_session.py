"""What a run of a suite makes of how its commands end."""

from __future__ import annotations

import pytest

from flushlab.errors import UsageError
from flushlab.suite.command import Ended
from flushlab.suite.session import require_prepared


@pytest.mark.parametrize("exit_code", [0, 130])
def test_an_interrupted_preparation_is_no_template_whatever_its_exit_code(exit_code: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        require_prepared(Ended(exit_code=exit_code, interrupted=True))


def test_a_failed_preparation_is_the_users_mistake() -> None:
    require_prepared(Ended(exit_code=0))
    with pytest.raises(UsageError, match="exited with code 3"):
        require_prepared(Ended(exit_code=3))
