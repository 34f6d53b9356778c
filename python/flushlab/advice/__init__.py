"""Advice: chosen settings as an option file and SET statements, and the way back. Pure: renders text only."""
