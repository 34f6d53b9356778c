"""Findings: one file each, registered here. Each is pure: evidence in, a finding or nothing out."""

from __future__ import annotations

from collections.abc import Callable

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding
from flushlab.diagnosis.findings import (
    commits,
    innodb,
    locks,
    machine,
    statements,
)

FINDINGS: tuple[Callable[[Evidence], Finding | None], ...] = (
    machine.find_disk,
    commits.find_commit_sync,
    statements.find_full_scans,
    locks.find_row_locks,
    locks.find_auto_increment,
    locks.find_metadata_locks,
    locks.find_xa_transactions,
    commits.find_semi_sync,
    commits.find_galera,
    innodb.find_redo_capacity,
    innodb.find_log_buffer,
    innodb.find_page_flushing,
    innodb.find_buffer_pool,
    commits.find_large_transactions,
    innodb.find_thread_concurrency,
    machine.find_cpu,
    machine.find_cpu_quota,
    machine.find_steal,
    machine.find_other_io,
    statements.find_client,
    commits.find_binlog_cache,
    locks.find_idle_transactions,
    statements.find_ddl,
    innodb.find_purge_lag,
    statements.find_rollbacks,
    statements.find_connections,
    commits.find_commits_in_flight,
    innodb.find_latches,
    innodb.find_pending_io,
)

__all__ = ["FINDINGS"]
