"""What tools are shown of a stored message by the relay: the address of its broker is the one at which they reach it."""

from __future__ import annotations

from typing import Final

import pytest

from domain.address import host_bytes, host_text
from domain.message.message import Message
from domain.message.record import Record, encode
from protocols.remoting import codes
from tests.gateway.apache.relay.relay_bench import FIRST_PORT, A, B, RelayBench

GATEWAY: Final = "10.9.9.9"


def stored(where: str, body: bytes = b"body") -> bytes:
    """A record as the broker at an address has stored it."""
    host, _, port = where.rpartition(":")
    return encode(Message("orders", body, b"KEYS\x01k\x02"), 4, 5, 6, host_bytes(host, int(port)))


def shown(host: str, code: int, body: bytes, **fields: str) -> bytes:
    """The body that a tool at broker-a's port of the gateway at `host` gets for what the broker has answered."""
    bench = RelayBench()
    bench.brokers.host = host
    bench.start()
    client = bench.client(FIRST_PORT)
    client.ask(code, **{"topic": "orders", **fields})  # type: ignore[arg-type]
    server = bench.to(A).accept()
    [request] = server.got()
    server.answer(request, body=body)
    [frame] = client.got()
    assert frame.code == codes.SUCCESS
    return frame.body


@pytest.mark.parametrize("host", [GATEWAY, "2001:db8::7"])
@pytest.mark.parametrize("code", [codes.QUERY_MESSAGE, codes.VIEW_MESSAGE])
def test_messages_of_queries_are_stored_where_tools_reach_their_broker(code: int, host: str) -> None:
    first, second = stored(A), stored(B, b"another")
    told = shown(host, code, first + second)
    hosts = host_bytes(host, FIRST_PORT), host_bytes(host, FIRST_PORT + 1)
    cut = int.from_bytes(told[:4], "big")
    assert (Record(told[:cut]).store_host, Record(told[cut:]).store_host) == hosts
    assert (Record(told[:cut]).body, Record(told[cut:]).body) == (b"body", b"another")


def test_the_one_message_that_a_tool_pulls_is_stored_there_too() -> None:
    """`mqadmin queryMsgByOffset` compares its store host, as it does with that of a query."""
    told = shown(GATEWAY, codes.PULL, stored(A), consumerGroup="TOOLS_CONSUMER", maxMsgNums="1")
    assert Record(told).store_host == host_bytes(GATEWAY, FIRST_PORT)


@pytest.mark.parametrize(
    ("group", "count"), [("readers", "1"), ("TOOLS_CONSUMER", "32")], ids=["a consumer", "a reader of many"]
)
def test_other_replies_stay_as_they_are(group: str, count: str) -> None:
    assert shown(GATEWAY, codes.PULL, stored(A), consumerGroup=group, maxMsgNums=count) == stored(A)


@pytest.mark.parametrize(
    "body",
    [b"", b"no record", stored(A)[:-1], stored(A) + b"x", stored(A)[:-9] + b"\xff" * 9, stored("10.0.0.77:1"), b"\xff" * 200],
    ids=["empty", "short", "cut", "more", "damaged", "of no broker", "of no size"],
)
def test_what_is_no_record_of_a_broker_stays_as_it_is(body: bytes) -> None:
    assert shown(GATEWAY, codes.QUERY_MESSAGE, body) == body


def test_a_gateway_that_is_known_by_name_leaves_the_brokers_address() -> None:
    assert host_text(Record(shown("gateway.example", codes.VIEW_MESSAGE, stored(A))).store_host) == A
