"""Datagrams to a node that does not serve yet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from gateway.runtime.address import bind
from gateway.runtime.clock import new_loop
from gateway.runtime.startup_ports import RefusedDatagrams
from protocols.coap.adapter import refusal

MAKES = [asyncio.new_event_loop, new_loop]
REQUEST = b"\x41\x02\x12\x34\x07\xb2mq"
"""A confirmable POST of /mq, message id 0x1234, token 07."""
UNAVAILABLE = b"\x61\xa3\x12\x34\x07\xd1\x01\x02"
"""Its piggybacked 5.03, with Max-Age 2."""
RESET = b"\x70\x00\x12\x34"


def test_a_confirmable_request_gets_503_and_other_confirmable_messages_a_reset() -> None:
    assert refusal(REQUEST) == UNAVAILABLE
    assert refusal(b"\x40\x00\xab\xcd") == b"\x70\x00\xab\xcd"  # a ping
    assert refusal(b"\x41\x45" + REQUEST[2:]) == RESET, "a response that nobody waits for"
    assert refusal(b"\x49" + REQUEST[1:]) == RESET, "a token of nine bytes"
    assert refusal(REQUEST + b"\xff") == RESET, "a marker without a payload"
    assert refusal(REQUEST[:5]) == RESET, "there is no room for Max-Age, and no answer is longer than its request"
    for kind in (1, 2, 3):
        assert refusal(bytes((0x41 | kind << 4,)) + REQUEST[1:]) == b""
    assert refusal(b"\x81" + REQUEST[1:]) == b""
    assert refusal(REQUEST[:3]) == b""
    assert refusal(b"") == b""


@pytest.mark.parametrize("make", MAKES)
def test_datagrams_are_refused_and_none_is_left_for_who_serves_the_port(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        bound = bind("coap", "127.0.0.1", 0, datagrams=True)
        refused = RefusedDatagrams([(bound, refusal)], loop)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.connect(bound.getsockname())
            client.setblocking(False)
            client.send(REQUEST)
            assert await loop.sock_recv(client, 100) == UNAVAILABLE
            for _ in range(100):
                client.send(b"")  # says nothing, and is answered by nothing
            client.send(REQUEST)
            refused.stop()
            assert await loop.sock_recv(client, 100) == UNAVAILABLE
            with pytest.raises(BlockingIOError):
                bound.recv(100)
            client.send(REQUEST)
            await asyncio.sleep(0.01)
            assert bound.recv(100) == REQUEST
        bound.close()

    loop = make()
    try:
        loop.run_until_complete(asyncio.wait_for(main(), 10))
    finally:
        loop.close()
