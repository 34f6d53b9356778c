"""Other load: what flushlab did not do to the machine that it is about to measure on."""

from __future__ import annotations

import msgspec


class OtherLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What others took of the machine before the first trial; shares are 0 to 1.

    Attributes:
        seconds: how long it was watched.
        cpu_share: of all processors' time, used by other programs.
        steal_share: of the time in which a processor was wanted, taken by the hypervisor.
        disk_share: of the time, in which the data root's disk was busy; None if it cannot be seen.
        waited_s: how long it was waited for until the machine was so quiet.
    """

    seconds: float
    cpu_share: float
    steal_share: float
    disk_share: float | None = None
    waited_s: float = 0.0

    @property
    def words(self) -> str:
        """The shares for people: `others: CPU 2%, disk 1%, steal 0%`."""
        disk = "" if self.disk_share is None else f"disk {self.disk_share:.0%}, "
        return f"others: CPU {self.cpu_share:.0%}, {disk}steal {self.steal_share:.0%}"
