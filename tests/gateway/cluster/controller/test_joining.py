"""How a controller becomes a member of its group, on a disk that may fail."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from controller.member import identity as identities
from controller.member.founding import Founding
from controller.member.identity import MemberIdentity
from controller.raft.configuration import Configuration
from controller.raft.disk_storage import FOLDER
from domain.message.crc32 import crc32
from gateway.cluster.controller.group_joining import GroupJoining
from gateway.cluster.controller.links import GREET_MS
from gateway.link.wire import Wire, WireUser
from tests.simulation.kit.clock import VirtualClock
from tests.simulation.kit.disk import MemoryDisk
from tests.simulation.kit.entropy import SeededEntropy


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
    joining = GroupJoining(disk, clock, entropy, founding, DeadDialer(), None, lambda why: None)
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


class Waiting:
    """A controller of three, and what it says of itself."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        disk, entropy = MemoryDisk(self.clock), SeededEntropy(1)
        self.founding = Founding(identities.load(disk, entropy), ["a:1", "b:2", "c:3"])
        self.why: list[str] = []
        self.joining = GroupJoining(disk, self.clock, entropy, self.founding, DeadDialer(), None, self.why.append)
        self.joining.start()

    def says(self) -> str:
        self.clock.run_for(2 * GREET_MS)
        return self.why[-1]


def test_a_new_group_says_every_ten_seconds_who_has_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting()
    waiting.founding.heard("a:1", waiting.founding.identity)
    waiting.founding.heard("b:2", MemberIdentity(5))
    assert waiting.joining._why().startswith("this controller waits for the others: c:3 has not answered; a new group")
    waiting.clock.run_for(34_500)
    lines = [each.getMessage() for each in caplog.records if "waits" in each.getMessage()]
    why = "a:1, b:2, c:3 have not answered; a new group of controllers needs all of them once"
    assert lines == [f"this controller waits for the others: {why}"] * 4


def test_a_controller_whose_majority_is_away_or_whose_log_is_damaged_is_not_ready() -> None:
    waiting = Waiting()
    waiting.joining.links.notified(MemberIdentity(9, frozenset({9, 8, waiting.founding.identity.node})), ())
    assert waiting.says() == "no controller leads: a:1, b:2, c:3 have not answered"
    member = waiting.joining.requests.member
    assert member is not None
    member._fail("its log is damaged")
    assert waiting.says() == "this controller takes part in nothing: its log is damaged"


def test_a_controller_in_a_group_with_a_leader_is_ready() -> None:
    clock = VirtualClock()
    disk, entropy = MemoryDisk(clock), SeededEntropy(1)
    founding, why = Founding(identities.load(disk, entropy), ["a:1"]), list[str]()
    joining = GroupJoining(disk, clock, entropy, founding, DeadDialer(), None, why.append)
    joining.start()
    joining.links.notified(MemberIdentity(9, frozenset({founding.identity.node})), ())
    clock.run_for(4_000)
    assert why[-1] == ""


def record(kind: int, body: bytes) -> bytes:
    return struct.pack(">BI", kind, len(body)) + body


ALONE = Configuration(frozenset({1})).encode()
LATER_SNAPSHOT = record(2, struct.pack(">QQI", 1, 0, len(ALONE)) + ALONE + b"\x09a later state")
LATER_ENTRY = record(3, struct.pack(">QQB", 1, 2, 7))
BEFORE = record(2, struct.pack(">QQI", 1, 0, len(ALONE)) + ALONE)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (LATER_SNAPSHOT, "the snapshot of the store groups has version 9"),
        (BEFORE + LATER_ENTRY, "entry 2 of the log has kind 7"),
    ],
)
def test_a_log_of_a_later_version_stays_and_its_controller_takes_part_in_nothing(
    records: bytes, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock()
    disk, entropy = MemoryDisk(clock), SeededEntropy(1)
    identities.store(disk, MemberIdentity(1, frozenset({1})))
    facts = struct.pack(">QQI", 1, 1, len(records))
    head = struct.pack(">II", 0x48475246, 1) + facts + struct.pack(">I", crc32(records, crc32(facts)))
    disk.replace(f"{FOLDER}/{1:020}", head + records)
    founding = Founding(identities.load(disk, entropy), ["a:1"])
    joining = GroupJoining(disk, clock, entropy, founding, DeadDialer(), None, list[str]().append)
    joining.start()
    member = joining.requests.member
    assert member is not None
    clock.run_for(5_000)
    assert not member.leads
    assert text in member.failure
    assert "leave the files where they are, and start that version" in caplog.text
    assert "renew-controller" not in caplog.text
    joining.requests.close()
    joining.links.close()
