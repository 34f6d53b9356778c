"""Report: records for people (terminal) and for programs (JSON documents). Pure."""
