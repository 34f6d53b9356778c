from flushlab.telemetry.observation import CpuTimes, foreign_share


def test_what_neither_server_nor_client_used_is_foreign() -> None:
    before = CpuTimes(busy_s=100.0, own_s=10.0, server_s=20.0)
    after = CpuTimes(busy_s=110.0, own_s=12.0, server_s=26.0)
    assert foreign_share(before, after, seconds=10.0, cpu_count=2) == (10 - 2 - 6) / 20


def test_an_unseen_server_leaves_the_share_unknown() -> None:
    unseen = CpuTimes(busy_s=1.0, own_s=1.0, server_s=None)
    assert foreign_share(unseen, unseen, seconds=1.0, cpu_count=1) is None
