"""The output queue: deliveries of compressed messages wait until the bytes before them are written, in order."""

from __future__ import annotations

import zlib

import pytest

from domain.delivery.routed import Delivery, RoutedRecord
from domain.message.message import LOCAL_HOST, SYS_COMPRESSED, Message
from domain.message.record import Record, encode
from protocols.host_shares import HostShares
from protocols.mqtt.inflated import BYTES_MAX, InflatedForms
from protocols.mqtt.output import INFLATED_BYTES, SLOW, Output
from protocols.mqtt.packet import Decoder
from protocols.mqtt.publish import Publish

PLAIN = INFLATED_BYTES // 2


def routed(number: int, compressed: bool) -> RoutedRecord:
    body = b"%04d" % number + (bytes(PLAIN) if compressed else b"")
    message = Message("t", zlib.compress(body) if compressed else body, b"", born_host=LOCAL_HOST)
    message.sys_flag = SYS_COMPRESSED if compressed else 0
    record = Record(encode(message, number, 0, 1, LOCAL_HOST))
    return RoutedRecord(record, b"", "t", 1)


def taken(output: Output) -> list[list[bytes]]:
    """First bytes of the bodies in each drain, until nothing waits."""
    decoder = Decoder(1 << 28, 4, client=True)
    rounds: list[list[bytes]] = []
    while True:
        packets = [packet for packet in decoder.feed(b"".join(output.drain())) if isinstance(packet, Publish)]
        rounds.append([packet.body[:4] for packet in packets])
        if not output.behind:
            return rounds
        output.encode_more(0)


@pytest.mark.parametrize("level", [0, 1])
def test_what_follows_a_large_message_waits_with_it(level: int) -> None:
    lost: list[tuple[str, int]] = []
    output = Output(1 << 20, lambda reason, number: lost.append((reason, number)), InflatedForms(), HostShares(), "10.0.0.1")
    kinds = [number % 3 != 2 for number in range(20)]
    items = [Delivery(routed(at, large), level, at + 1 if level else 0, False, False, ()) for at, large in enumerate(kinds)]
    output.deliver(items, 0)
    assert output.behind
    rounds = taken(output)
    assert [number for each in rounds for number in each] == [b"%04d" % at for at in range(20)]
    assert max(sum(kinds[int(number)] for number in each) for each in rounds) <= 3
    assert lost == []


def test_deliveries_at_qos_0_that_find_no_room_are_lost() -> None:
    lost: list[tuple[str, int]] = []
    room = len(routed(0, True).record.data) * 5
    output = Output(room, lambda reason, number: lost.append((reason, number)), InflatedForms(), HostShares(), "10.0.0.1")
    output.deliver([Delivery(routed(at, True), 0, 0, False, False, ()) for at in range(20)], 0)
    assert sum(number for reason, number in lost if reason == SLOW) >= 12
    assert output.behind
    assert len([number for each in taken(output) for number in each]) + sum(number for _, number in lost) == 20


def test_the_newest_forms_are_kept() -> None:
    forms = InflatedForms()
    records = [routed(at, False) for at in range(6)]
    for each in records:
        forms.put(each, (0,), (bytes(BYTES_MAX // 4), b""))
    assert [forms.get(each, (0,)) is not None for each in records] == [False, False, True, True, True, True]
    forms.put(records[0], (0,), (bytes(2 * BYTES_MAX), b""))
    assert [forms.get(each, (0,)) is not None for each in records] == [True, False, False, False, False, False]


def test_deliveries_that_many_clients_leave_unread_share_one_bound() -> None:
    """What an earlier turn has left counts; a client that reads each turn loses nothing while there is no room."""
    unread = HostShares(8 << 20)
    lost: list[int] = []
    lost_by_reader: list[int] = []

    def made(name: str, into: list[int]) -> Output:
        return Output(4 << 20, lambda reason, number: into.append(number), InflatedForms(), unread, name)

    slow = [made(f"{at}", lost) for at in range(100)]
    reads = made("reads", lost_by_reader)
    body = bytes(50_000)
    record = Record(encode(Message("t", body, b"", born_host=LOCAL_HOST), 0, 0, 1, LOCAL_HOST))
    for _ in range(40):
        for output in (*slow, reads):
            output.deliver([Delivery(RoutedRecord(record, b"", "t", 0), 0, 0, False, False, ())] * 2, 0)
        reads.drain()
        # The last turn is not counted yet.
        assert unread.bytes_held <= (8 << 20) + len(slow) * 4 * len(body)
    assert sum(lost) > 0
    assert lost_by_reader == []
    for output in slow:
        output.drain()
    assert unread.bytes_held == 0
