"""Many datagrams a call are the same datagrams, in the same order, as one a call."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from gateway.runtime.datagrams.calls import SLOTS, DatagramCalls, ManyCalls, SingleCalls, calls_for

HOST = "127.0.0.1"


def opened() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind((HOST, 0))
    bound.setblocking(False)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    return bound


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with opened() as one, opened() as other:
        yield one, other


@pytest.fixture(params=["many", "single"])
def calls(request: pytest.FixtureRequest, pair: tuple[socket.socket, socket.socket]) -> DatagramCalls:
    if request.param == "single":
        return SingleCalls()
    found = calls_for(pair[0])
    if not isinstance(found, ManyCalls):
        pytest.skip("this system reads one datagram a call")
    return found


def bodies(count: int) -> list[bytes]:
    chance = random.Random(count)
    return [chance.randbytes(chance.choice((0, 1, 20, 1_100))) for _ in range(count)]


@pytest.mark.parametrize("count", [0, 1, 2, SLOTS, SLOTS + 1, 3 * SLOTS])
def test_what_is_written_is_read(calls: DatagramCalls, pair: tuple[socket.socket, socket.socket], count: int) -> None:
    one, other = pair
    sent = bodies(count)
    to = other.getsockname()
    for _ in range(2):  # the second time with buffers that were in use
        assert calls.write(one, [(body, to) for body in sent]) == count
        assert (calls.lost, calls.written) == (0, sum(len(body) for body in sent))
        assert calls.read(other, 1_000) == [(body, one.getsockname()) for body in sent]
        assert calls.read(other, 1_000) == []


def test_no_more_is_read_than_is_asked_for(calls: DatagramCalls, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    sent = bodies(SLOTS + 20)
    calls.write(one, [(body, other.getsockname()) for body in sent])
    read = calls.read(other, 5) + calls.read(other, SLOTS + 3) + calls.read(other, 1_000)
    assert [body for body, _ in read] == sent


def test_each_datagram_goes_to_its_address_and_names_its_sender(calls: DatagramCalls) -> None:
    ports = [opened() for _ in range(5)]
    try:
        names = [port.getsockname() for port in ports]
        assert calls.write(ports[0], [(b"%d" % at, names[1 + at % 4]) for at in range(40)]) == 40
        for number, port in enumerate(ports[1:]):
            assert calls.read(port, 99) == [(b"%d" % at, names[0]) for at in range(number, 40, 4)]
            port.sendto(b"back", names[0])
        assert sorted(address for _, address in calls.read(ports[0], 99)) == sorted(names[1:])
    finally:
        for port in ports:
            port.close()


def test_the_largest_datagrams(calls: DatagramCalls, pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    sent = [bytes((number,)) * 65_507 for number in range(7)]
    assert calls.write(one, [(body, other.getsockname()) for body in sent]) == 7
    assert [body for body, _ in calls.read(other, 99)] == sent


def test_what_cannot_be_sent_is_counted_and_the_rest_is_sent(
    calls: DatagramCalls, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    to = other.getsockname()
    too_large = (bytes(65_508), to)
    sent = [(b"1", to), too_large, (b"2", to), (b"3", to), too_large]
    assert calls.write(one, sent) == 5
    assert (calls.lost, calls.written) == (2, 3)
    assert [body for body, _ in calls.read(other, 99)] == [b"1", b"2", b"3"]


def test_what_finds_no_room_is_left(calls: DatagramCalls, pair: tuple[socket.socket, socket.socket]) -> None:
    one, _ = pair
    full = Full(one, 3)
    if isinstance(calls, ManyCalls):
        calls._write = full.sendmmsg
    sent = [(b"%d" % at, (HOST, 9)) for at in range(8)]
    assert calls.write(full, sent) == 3  # type: ignore[arg-type]
    assert calls.lost == 0


def test_addresses_are_forgotten_when_there_are_many(calls: DatagramCalls) -> None:
    if isinstance(calls, ManyCalls):
        calls.addresses_max = 2
    test_each_datagram_goes_to_its_address_and_names_its_sender(calls)


class Full:
    """A socket that has room for so many datagrams."""

    def __init__(self, bound: socket.socket, room: int) -> None:
        self.fileno = bound.fileno
        self.room = room

    def sendto(self, data: bytes, _address: tuple[str, int]) -> int:
        if not self.room:
            raise BlockingIOError
        self.room -= 1
        return len(data)

    def sendmmsg(self, _number: int, _headers: int, count: int, _flags: int) -> int:
        sent, self.room = min(self.room, count), max(0, self.room - count)
        return sent or -1
