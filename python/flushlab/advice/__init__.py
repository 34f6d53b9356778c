"""Advice: from chosen settings to an option file and SET statements. Pure: renders text, writes nothing."""

from flushlab.advice.option_file import option_file
from flushlab.advice.set_statements import set_statements

__all__ = ["option_file", "set_statements"]
