"""Unfinished requests: judged at their heads, and bounded for all connections together."""

from __future__ import annotations

import gzip

import pytest

from domain.command import Disconnected
from protocols.host_shares import HostShares
from protocols.http.request import INFLATED_BYTES_PER_SLICE
from tests.protocols.http.stage import SECOND, Client, OnePassword, adapter, request

HEAD = b"POST /v1/topics/t/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
MIB = 1024 * 1024


def test_strangers_are_refused_before_their_content() -> None:
    made = adapter(authority=OnePassword())
    stranger = Client(made=made).send(HEAD + b"\r\n")
    assert [answer.status for answer in stranger.answers()] == [401]
    assert stranger.connection.closed
    known = Client(made=made).send(HEAD + b"Authorization: Basic dTpw\r\n\r\n" + bytes(1_000_000))
    assert [answer.status for answer in known.answers()] == [201]
    assert known.commands[0].principal is not None


def test_unfinished_requests_of_all_connections_share_one_bound() -> None:
    uploads = HostShares(4 * MIB)
    made = adapter(uploads)
    clients = [Client(made=made).send(HEAD + b"\r\n" + bytes(700_000)) for _ in range(5)]
    assert [len(client.answers()) for client in clients] == [0, 0, 1, 1, 1]
    assert [answer.status for answer in clients[-1].answers()] == [503]
    assert uploads.bytes_held == 1_400_000
    clients[0].send(bytes(300_000))
    assert [answer.status for answer in clients[0].answers()] == [201]
    clients[1].take(clients[1].connection.receive(b"", SECOND))
    assert uploads.bytes_held == 0
    assert Client(made=made).send(HEAD + b"\r\n" + bytes(700_000)).answers() == []


def test_a_request_that_is_too_late_gives_its_bytes_back() -> None:
    uploads = HostShares(4 * MIB)
    slow = Client(made=adapter(uploads)).send(HEAD + b"\r\n" + bytes(10))
    commands = slow.connection.expire(60 * SECOND)
    assert isinstance(commands[-1], Disconnected)
    assert uploads.bytes_held == 0


PACKED = gzip.compress(bytes(4 * MIB))


@pytest.mark.parametrize(("more", "whole_slices"), [(2 * len(PACKED), 4), (2 * len(PACKED) - 2, 3)])
def test_decompressed_bytes_count(more: int, whole_slices: int) -> None:
    """16 KiB of gzip are 16 MiB: they are decompressed in slices, and held within the bound, as are those that arrived."""
    uploads = HostShares(2 * 4 * INFLATED_BYTES_PER_SLICE + more)
    client = Client(made=adapter(uploads))
    body = request("POST", "/v1/topics/t/messages", {"Content-Encoding": "gzip"}, PACKED)
    client.take(client.connection.receive(body, 0))
    slices = 1
    while client.connection.deadline() == 0:
        client.take(client.connection.expire(0))
        slices += 1
    assert [answer.status for answer in client.answers()] == [503]
    assert uploads.bytes_held == 0
    assert slices == whole_slices + 1
