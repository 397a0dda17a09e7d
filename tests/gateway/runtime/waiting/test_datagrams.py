"""Datagrams to a node that does not serve yet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

from gateway.runtime.address import bind
from gateway.runtime.clock import new_loop
from gateway.runtime.waiting.datagrams import RefusedDatagrams
from protocols.coap.refusal import refusal

MAKES = [asyncio.new_event_loop, new_loop]
REQUEST = b"\x41\x02\x12\x34\x07\xb2mq"
"""A confirmable POST of /mq, message id 0x1234, token 07."""


def test_a_reset_is_for_confirmable_messages_only() -> None:
    assert refusal(REQUEST) == b"\x70\x00\x12\x34"
    assert refusal(b"\x40\x00\xab\xcd") == b"\x70\x00\xab\xcd"  # a ping
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
            assert await loop.sock_recv(client, 100) == b"\x70\x00\x12\x34"
            for _ in range(100):
                client.send(b"")  # says nothing, and is answered by nothing
            client.send(REQUEST)
            refused.stop()
            assert await loop.sock_recv(client, 100) == b"\x70\x00\x12\x34"
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
