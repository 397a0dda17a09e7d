"""A relayed connection alone: what its incomplete frames take of the bound that all connections share."""

from __future__ import annotations

from domain.command import Disconnected
from domain.limits import SECOND_NS
from protocols.adapter import Peer
from protocols.host_shares import HostShares
from protocols.remoting.relayed.connection import RelayConnection
from protocols.remoting.relayed.exchange import RelayFrames, RelayReading
from protocols.remoting.settings import RemotingSettings
from protocols.remoting.wire.frame import encode
from protocols.setting import Setting
from protocols.upload import RETRY_NS
from tests.protocols.remoting.frames import BORN_HOST
from tests.simulation.kit.entropy import NoEntropy

MIB = 1024 * 1024
FRAME = encode(310, 1, body=bytes(4 * MIB))
HALF = len(FRAME) // 2


def connections(uploads: HostShares) -> tuple[RelayConnection, RelayConnection]:
    """Two clients of one host."""
    setting = Setting("c", "b", "127.0.0.1", {}, NoEntropy(), lambda: 0, uploads=uploads)
    first, second = (
        RelayConnection(setting, RemotingSettings(), None, Peer("10.0.0.1", port, BORN_HOST), 0) for port in (1, 2)
    )
    return first, second


def test_a_frame_without_room_waits_and_ends_nobody() -> None:
    uploads = HostShares(9 * MIB)
    first, second = connections(uploads)
    assert list(first.receive(FRAME[:HALF], 1)) == []
    assert list(second.receive(FRAME[:HALF], 1)) == []
    assert (first.reading, second.reading) == (True, False)
    assert second.deadline() == 1 + RETRY_NS
    assert list(second.expire(1 + RETRY_NS)) == []
    assert (second.reading, uploads.refused) == (False, 1)
    (frames,) = first.receive(FRAME[HALF:], 2)
    assert isinstance(frames, RelayFrames)
    assert uploads.bytes_held == 0
    second.answer(RelayReading(False), 3)
    assert list(second.expire(1 + 2 * RETRY_NS)) == []
    assert not second.reading, "the relay takes nothing now"
    second.answer(RelayReading(True), 4)
    assert second.reading
    (frames,) = second.receive(FRAME[HALF:], 2 + 2 * RETRY_NS)
    assert isinstance(frames, RelayFrames)


def test_the_time_that_a_frame_waits_for_room_is_not_the_clients() -> None:
    uploads = HostShares(9 * MIB)
    first, second = connections(uploads)
    first.receive(FRAME[:HALF], 1)
    second.receive(FRAME[:HALF], 1)
    now = 1
    for _ in range(10_000):
        now = second.deadline() or 0
        assert list(second.expire(now)) == []
    (gone,) = first.receive(b"", now)
    assert isinstance(gone, Disconnected)
    assert uploads.bytes_held == 0
    now = second.deadline() or 0
    assert list(second.expire(now)) == []
    assert second.reading
    due = second.deadline()
    assert due is not None
    assert due - now == RemotingSettings().frame_seconds * 1_000_000_000
    (late,) = second.expire(due)
    assert isinstance(late, Disconnected)
    assert uploads.bytes_held == 0


def test_the_time_in_which_the_relay_takes_nothing_is_not_the_clients() -> None:
    first, _ = connections(HostShares())
    first.receive(FRAME[:9], 0)
    first.answer(RelayReading(False), SECOND_NS)
    assert first.deadline() == RemotingSettings().idle_seconds * SECOND_NS
    first.answer(RelayReading(True), 30 * SECOND_NS)
    assert first.reading
    assert first.deadline() == (30 + RemotingSettings().frame_seconds) * SECOND_NS
