"""One CoAP peer floods, forges, registers, parks and never finishes; the neighbours are answered as if it were not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from protocols.coap.message import message, option
from tests.neighbours.node import SharedNode

HOST = "10.0.0.66"


@pytest.fixture
def node() -> Iterator[SharedNode]:
    with SharedNode() as made:
        yield made


def request(
    kind: int,
    code: int,
    mid: int,
    path: str,
    payload: bytes = b"",
    token: bytes = b"",
    pairs: tuple[tuple[int, bytes], ...] = (),
) -> bytes:
    options = [(option.URI_PATH, level.encode()) for level in path.split("/")]
    return message.encode(kind, code, mid & 0xFFFF, token, message.join([*options, *pairs]), payload)


def register(mid: int, token: bytes, path: str = "mq/t/a") -> bytes:
    return request(message.CON, message.GET, mid, path, token=token, pairs=((option.OBSERVE, b""),))


def acknowledge(node: SharedNode, port: int) -> None:
    """ACK the last confirmable message that was sent to the port."""
    packet = message.decode(node.datagrams.last.get((HOST, port), b""))
    if packet is not None and packet.kind == message.CON:
        node.datagram(message.empty(message.ACK, packet.mid), port=port)


@pytest.mark.parametrize("ports", [1, 200])
def test_registrations_on_one_path_and_messages_to_it(node: SharedNode, ports: int) -> None:
    """Thousands of registrations, then messages that each of them would have to be told of."""
    for number in range(3_000):
        port = 5_000 + number % ports
        node.datagram(register(number // ports, number.to_bytes(3, "big")), port=port)
        if number % 500 == 499:
            node.run(3).check()
            for each in range(ports):
                acknowledge(node, 5_000 + each)
    for number in range(3_000):
        node.datagram(request(message.NON, message.POST, number, "mq/t/a", b"x" * 500), port=4_000)
        if number % 250 == 249:
            load = node.run(3)
            load.check()
            for each in range(ports):
                acknowledge(node, 5_000 + each)
    load.check()


def test_observers_who_never_acknowledge_take_no_memory(node: SharedNode) -> None:
    for number in range(2_000):
        node.datagram(register(1, b"t", f"mq/t/{number % 50}"), port=1_000 + number)
        if number % 200 == 199:
            node.run(3).check()
    for number in range(1_000):
        node.datagram(request(message.NON, message.POST, number, f"mq/t/{number % 50}", b"x" * 4_000), port=900)
        if number % 100 == 99:
            node.run(3).check()
    observing = node.run(1).grown_bytes
    for _ in range(15):
        node.idle(8)
        node.run(10)
    assert node.run(5).grown_bytes - observing < 1024 * 1024


def test_a_flood_of_requests_waits_behind_the_neighbours(node: SharedNode) -> None:
    for turn in range(10):
        for number in range(2_000):
            node.datagram(request(message.CON, message.GET, turn * 2_000 + number, ".well-known/core"))
        node.run(1).check()
    node.run(20).check()
    assert node.load.waited["coap"] <= 2


def test_a_flood_of_many_ports_is_one_host(node: SharedNode) -> None:
    for turn in range(10):
        for number in range(2_000):
            node.datagram(request(message.CON, message.POST, turn, "mq/t/flood", b"x"), port=1_000 + number)
        load = node.run(1)
        load.check()
        assert load.waited["coap"] <= 2


def test_requests_that_wait_for_a_message_are_bounded(node: SharedNode) -> None:
    query = ((option.URI_QUERY, b"group=g"), (option.URI_QUERY, b"wait=30"))
    for number in range(2_000):
        node.datagram(request(message.CON, message.GET, number, "mq/t", token=number.to_bytes(2, "big"), pairs=query))
        if number % 250 == 249:
            node.run(3).check()


def test_bodies_that_never_end_are_bounded(node: SharedNode) -> None:
    block = (option.BLOCK1, b"\x0e")
    for number in range(2_000):
        pairs = (block, (option.REQUEST_TAG, number.to_bytes(2, "big")))
        node.datagram(
            request(message.CON, message.PUT, number, "mq/t/large", b"x" * 1_024, pairs=pairs), port=1_000 + number % 7
        )
        if number % 250 == 249:
            node.run(3).check()


def test_large_values_read_by_halves_are_bounded(node: SharedNode) -> None:
    for number in range(40):
        node.datagram(request(message.CON, message.PUT, number, f"mq/t/v{number}", b"x" * 8_000))
    node.run(5)
    for number in range(2_000):
        pairs = ((option.BLOCK2, b"\x06"),)
        node.datagram(request(message.CON, message.GET, number, f"mq/t/v{number % 40}", pairs=pairs), port=1_000 + number % 500)
        if number % 250 == 249:
            node.run(3).check()


def test_datagrams_of_no_sense_cost_little(node: SharedNode) -> None:
    for turn in range(10):
        for number in range(1_000):
            node.datagram(bytes((0x40 + number % 64, number % 256, turn, number % 251)) + b"\xff" * (number % 40))
        node.run(1).check()
