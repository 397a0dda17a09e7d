"""Invalid input, a row each: the answers to 3.1.1 and 5.0 clients, the reason counted, and whether the will is published."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from protocols.mqtt.connect import Will
from protocols.mqtt.property import NONE
from tests.conformance.script import entered, heard
from tests.protocols.mqtt.stage import Broker
from tests.protocols.mqtt.vectors import h


class First(NamedTuple):
    """The first bytes of a connection. `answer`: bytes that the server sends before it closes, in hexadecimal."""

    name: str
    data: bytes
    answer: str
    reason: str


FIRST = [
    First("not a CONNECT", h("c0 00"), "", "not-mqtt"),
    First("a PUBLISH", h("30 04 0001 74 00"), "", "not-mqtt"),
    First("text of HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "", "not-mqtt"),
    First("TLS in the clear", h("16 0301 0200 01"), "", "not-mqtt"),
    First("another protocol's name", h("10 0d 0004 41424344 04 02 0000 0001 63"), "", "not-mqtt"),
    First("a name in lower case", h("10 0d 0004 6d717474 04 02 0000 0001 63"), "", "not-mqtt"),
    First("3.1's name with 3.1.1's level", h("10 0f 0006 4d5149736470 04 02 0000 0001 63"), "20020001", "version"),
    First("an old level", h("10 0d 0004 4d515454 01 02 0000 0001 63"), "20020001", "version"),
    First("a CONNECT of 3.1.1 with a reserved flag", h("10 0d 0004 4d515454 04 03 0000 0001 63"), "", "malformed"),
    First("one that is cut inside its length", h("10 0d 0004 4d515454 04 02 0000 0009 63"), "", "malformed"),
    First("an empty id without a clean session", h("10 0c 0004 4d515454 04 00 0000 0000"), "20020002", "client-id"),
    First("an id that is too long", h("10 9008 0004 4d515454 04 02 0000 0404") + b"x" * 1028, "20020002", "client-id"),
    First("a remaining length of five bytes", h("10 ffffffff 01"), "", "malformed"),
    First("a CONNECT of a megabyte", h("10 8080 40 0004 4d515454 04"), "", "not-mqtt"),
]


@pytest.mark.parametrize("row", FIRST, ids=lambda row: row.name)
def test_first_packet(row: First) -> None:
    client = Broker().client(4)
    client.stalled = True
    client.send(row.data)
    assert b"".join(client.connection.outgoing()).hex() == row.answer
    assert (client.gone, client.reason) == (True, row.reason)


class Later(NamedTuple):
    """Bytes behind CONNECT. `code`: of 5.0, in DISCONNECT; 3.1.1 hears nothing. Where forms differ, each has its own row."""

    name: str
    version: int
    data: str
    code: str
    reason: str


def both(name: str, data: str, code: str, reason: str) -> list[Later]:
    return [Later(name, 4, data, code, reason), Later(name, 5, data, code, reason)]


LATER = [
    *both("a second CONNECT", "10 0d 0004 4d515454 04 02 0000 0001 63", "82", "protocol-error"),
    *both("a packet that only servers send", "20 02 0000", "82", "protocol-error"),
    *both("packet type 0", "00 00", "81", "malformed"),
    *both("wrong flags", "8f 06 0001 0001 74 00", "81", "malformed"),
    *both("QoS 3", "36 06 0001 74 0001 00", "81", "malformed"),
    *both("packet id 0", "32 06 0001 74 0000 00", "81", "malformed"),
    *both("a remaining length of five bytes", "30 ffffffff 01", "81", "malformed"),
    *both("more than the limit, at the header", "30 ffff ff7f", "95", "too-large"),
    *both("a topic longer than its packet", "30 03 00ff 74", "81", "malformed"),
    *both("an acknowledgement of one byte", "40 01 01", "81", "malformed"),
    *both("a topic that is not UTF-8", "30 05 0002 c328 00", "81", "malformed"),
    *both("U+0000 in a topic", "30 04 0001 00 00", "81", "malformed"),
    *both("a surrogate in a topic", "30 06 0003 eda080 00", "81", "malformed"),
    *both("a wildcard in a topic name", "30 04 0001 23 00", "90", "topic-name"),
    *both("ping with a body", "c0 01 00", "81", "malformed"),
    Later("an empty topic name", 4, "30 02 0000", "", "topic-name"),
    Later("an empty topic name without alias", 5, "30 03 0000 00", "82", "protocol-error"),
    Later("an alias that stands for nothing", 5, "30 06 0000 03 23 0001", "82", "protocol-error"),
    Later("alias 0", 5, "30 07 0001 74 03 23 0000", "94", "topic-alias"),
    Later("a property that is not PUBLISH's", 5, "30 09 0001 74 05 11 00000001", "82", "protocol-error"),
    Later("a property that does not exist", 5, "30 06 0001 74 02 7e 00", "81", "malformed"),
    Later("a property twice", 5, "30 08 0001 74 04 0100 0100", "82", "protocol-error"),
    Later("properties longer than the packet", 5, "30 04 0001 74 09", "81", "malformed"),
    Later("a subscription identifier that is too large", 5, "82 0c 0001 05 0b ffffffff 01 0001 74 00", "81", "malformed"),
    Later("a share without local messages", 5, "82 10 0001 00 000a 2473686172652f672f74 05", "82", "protocol-error"),
    Later("an unknown reason code", 5, "40 03 0001 42", "81", "malformed"),
    Later("AUTH without a method", 5, "f0 02 19 00", "82", "protocol-error"),
    Later("AUTH in 3.1.1", 4, "f0 00", "", "protocol-error"),
]


@pytest.mark.parametrize("row", LATER, ids=lambda row: f"{row.name} ({row.version})")
@pytest.mark.parametrize("piecewise", [False, True])
def test_later_packet(row: Later, piecewise: bool) -> None:
    """The connection ends, a 5.0 client gets the reason code, and the will is published: there was no DISCONNECT."""
    broker = Broker()
    listener = entered(broker, 4, "listener")
    listener.subscribe("wills/#")
    client = entered(broker, row.version, "c", will=Will("wills/c", b"gone", 1, False, NONE))
    data = h(row.data)
    for at in range(0, len(data), 1 if piecewise else len(data)):
        client.send(data[at : at + 1] if piecewise else data, wait=False)
    broker.run()
    assert heard(client) == ([f"DISCONNECT {row.code}", "closed"] if row.version == 5 else ["closed"])
    assert client.reason == row.reason
    assert heard(listener) == ["PUBLISH wills/c q1 gone"]


@pytest.mark.parametrize(("drip", "reason"), [(b"", "no-connect"), (h("10 0d 0004 4d515454 04"), "no-connect")])
def test_ten_seconds_for_connect_in_all(drip: bytes, reason: str) -> None:
    broker = Broker()
    client = broker.client(4)
    client.poll()
    for at in range(9):
        client.send(drip[at : at + 1])
        broker.run(1_050)
    assert not client.gone
    broker.run(600)
    assert (heard(client), client.reason) == (["closed"], reason)


@pytest.mark.parametrize("version", [4, 5])
def test_what_is_too_large_is_refused_before_its_body_is_there(version: int) -> None:
    broker = Broker(packet_bytes_max=1_000)
    client = entered(broker, version, "c")
    client.send(h("30 e807"))
    assert heard(client) == (["DISCONNECT 95", "closed"] if version == 5 else ["closed"])
