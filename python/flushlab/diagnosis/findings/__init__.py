"""Findings: one file each, registered here. Each is pure: evidence in, a finding or nothing out."""

from __future__ import annotations

from collections.abc import Callable

from flushlab.diagnosis.evidence import Evidence
from flushlab.diagnosis.finding import Finding
from flushlab.diagnosis.findings import (
    auto_increment,
    binlog_cache,
    buffer_pool,
    client,
    commit_sync,
    commits_in_flight,
    connections,
    cpu,
    cpu_quota,
    ddl,
    disk,
    full_scans,
    galera,
    idle_transactions,
    large_transactions,
    latches,
    log_buffer,
    metadata_locks,
    other_io,
    page_flushing,
    pending_io,
    purge_lag,
    redo_capacity,
    rollbacks,
    row_locks,
    semi_sync,
    steal,
    thread_concurrency,
    xa_transactions,
)

FINDINGS: tuple[Callable[[Evidence], Finding | None], ...] = (
    disk.find,
    commit_sync.find,
    full_scans.find,
    row_locks.find,
    auto_increment.find,
    metadata_locks.find,
    xa_transactions.find,
    semi_sync.find,
    galera.find,
    redo_capacity.find,
    log_buffer.find,
    page_flushing.find,
    buffer_pool.find,
    large_transactions.find,
    thread_concurrency.find,
    cpu.find,
    cpu_quota.find,
    steal.find,
    other_io.find,
    client.find,
    binlog_cache.find,
    idle_transactions.find,
    ddl.find,
    purge_lag.find,
    rollbacks.find,
    connections.find,
    commits_in_flight.find,
    latches.find,
    pending_io.find,
)

__all__ = ["FINDINGS"]
