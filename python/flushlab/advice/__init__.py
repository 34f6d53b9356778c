"""Advice: chosen settings as an option file and SET statements, and the way back. Pure: renders text only."""

from flushlab.advice.option_file import option_file
from flushlab.advice.statements import (
    persisted_comments,
    rollback_file,
    rollback_statements,
    set_statements,
    statements_file,
)
from flushlab.advice.verification import verification

__all__ = [
    "option_file",
    "persisted_comments",
    "rollback_file",
    "rollback_statements",
    "set_statements",
    "statements_file",
    "verification",
]
