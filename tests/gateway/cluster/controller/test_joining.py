"""How a controller becomes a member of its group, on a disk that may fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller.member import identity as identities
from controller.member.founding import Founding
from controller.member.identity import MemberIdentity
from gateway.cluster.controller.group_joining import GroupJoining
from gateway.cluster.controller.links import GREET_MS
from gateway.link.wire import Wire, WireUser
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy

ENDPOINTS = [("a", 1)]


class DeadWire:
    """A connection that is never made."""

    def write(self, data: bytes) -> None:
        """Wire.write."""

    def set_reading(self, reading: bool) -> None:
        """Wire.set_reading."""

    def close(self) -> None:
        """Wire.close."""


class DeadDialer:
    """Nobody answers."""

    def dial(self, host: str, port: int, user: WireUser, on_full: Callable[[bool], None] | None = None) -> Wire:
        """Dialer.dial."""
        return DeadWire()


class FailingDisk(MemoryDisk):
    """A disk that cannot replace files while `full`."""

    full = False

    def replace(self, name: str, data: bytes) -> None:
        """Disk.replace."""
        if self.full:
            raise OSError(28, "No space left on device")
        super().replace(name, data)


@pytest.mark.parametrize("fails", [False, True])
def test_a_founder_whose_disk_fails_tries_again_until_its_log_is_written(fails: bool) -> None:
    clock = VirtualClock()
    disk, entropy = FailingDisk(clock), SeededEntropy(1)
    founding = Founding(identities.load(disk, entropy), ["a:1"])
    joining = GroupJoining(disk, clock, entropy, founding, ENDPOINTS, DeadDialer(), None)
    links, controlling = joining.links, joining.requests
    joining.start()
    disk.full = fails
    node = founding.identity.node
    links.notified(MemberIdentity(9, frozenset({node})), ())
    if fails:
        assert controlling.member is None
        assert "No space left" in joining.waits
        clock.run_for(3 * GREET_MS)
        assert controlling.member is None
        disk.full = False
        clock.run_for(GREET_MS)
    assert joining.waits == ""
    assert controlling.member is not None
    clock.run_for(3_000)
    assert controlling.member.leads
    assert identities.load(disk, entropy) == MemberIdentity(node, frozenset({node}))
    controlling.close()
    links.close()
