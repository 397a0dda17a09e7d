"""One table of MQTT packets as bytes: what each decodes to, or the reason code of its error.

MQTT 5 clauses are cited as they are numbered there; 3.1.1 means the same unless a row says otherwise.
`expected` is a tuple of fields to compare, or an int: the reason code of the error (-1: not MQTT, closed without an answer).
"""

from __future__ import annotations

from typing import NamedTuple

from protocols.mqtt.wire import V4, V5


class Vector(NamedTuple):
    """`version` 0: the first packet of a connection. `expected`: field values by name, or the reason code of the error."""

    clause: str
    name: str
    version: int
    data: bytes
    expected: dict[str, object] | int


def h(text: str) -> bytes:
    return bytes.fromhex(text)


C4 = "10 0f 0004 4d515454 04 02 003c 0003 616263"
C5 = "10 10 0004 4d515454 05 02 003c 00 0003 616263"

CONNECTS = [
    Vector("3.1", "3.1.1 connect", 0, h(C4), {"version": 4, "client_id": "abc", "clean": True, "keep_alive_s": 60}),
    Vector("3.1", "5.0 connect", 0, h(C5), {"version": 5, "client_id": "abc", "clean": True, "will": None}),
    Vector("3.1 (MQTT 3.1)", "3.1 connect", 0, h("10 11 0006 4d5149736470 03 02 003c 0003 616263"),
           {"version": 3, "client_id": "abc"}),
    Vector("3.1.3.5", "5.0 password without user", 0, h("10 13 0004 4d515454 05 42 003c 00 0003 616263 0001 70"),
           {"user": None, "password": b"p"}),
    Vector("3.1.2.9 (3.1.1)", "password without user", 0, h("10 12 0004 4d515454 04 42 003c 0003 616263 0001 70"), 0x81),
    Vector("3.1.0-1", "ping first", 0, h("c0 00"), -1),
    Vector("3.1.0-1", "HTTP first", 0, b"GET / HTTP/1.1\r\n\r\n", -1),
    Vector("3.1.2.1", "foreign protocol name", 0, h("10 0f 0004 4d515455 04 02 003c 0003 616263"), -1),
    Vector("3.1.2.1", "foreign protocol name, incomplete", 0, h("10 ff01 0004 5858"), -1),
    Vector("3.1.2.2", "level 6", 0, h("10 0f 0004 4d515454 06 02 003c 0003 616263"), 0x84),
    Vector("3.1.2.2 (3.1.1)", "level 4 of a bridge", 0, h("10 0f 0004 4d515454 84 02 003c 0003 616263"),
           {"version": 4, "client_id": "abc", "bridge": True}),
    Vector("3.1.2.2 (3.1.1)", "level 3 of a bridge", 0, h("10 11 0006 4d5149736470 83 02 003c 0003 616263"),
           {"version": 3, "client_id": "abc", "bridge": True}),
    Vector("3.1.2.2", "level 5 with the bit of a bridge", 0, h("10 0f 0004 4d515454 85 02 003c 0003 616263"), 0x01),
    Vector("3.1.2.2", "level 3 of a bridge with the name of 3.1.1", 0, h("10 0f 0004 4d515454 83 02 003c 0003 616263"), 0x01),
    Vector("3.1.2.2", "level 255", 0, h("10 0f 0004 4d515454 ff 02 003c 0003 616263"), 0x01),
    Vector("3.1.2.2", "level 2", 0, h("10 0f 0004 4d515454 02 02 003c 0003 616263"), 0x01),
    Vector("3.1.2.3", "reserved connect flag", 0, h("10 0f 0004 4d515454 04 03 003c 0003 616263"), 0x81),
    Vector("3.1.2.6", "will QoS 3", 0, h("10 15 0004 4d515454 04 1e 003c 0003 616263 0001 74 0001 6d"), 0x81),
    Vector("3.1.2.6", "will QoS without will", 0, h("10 0f 0004 4d515454 04 0a 003c 0003 616263"), 0x81),
    Vector("3.1.2.7", "will retain without will", 0, h("10 0f 0004 4d515454 04 22 003c 0003 616263"), 0x81),
    Vector("3.1.3", "will announced, absent", 0, h("10 0f 0004 4d515454 04 06 003c 0003 616263"), 0x81),
    Vector("3.1.3", "bytes left over", 0, h("10 10 0004 4d515454 04 02 003c 0003 616263 00"), 0x81),
    Vector("1.5.4", "client id with U+0000", 0, h("10 0f 0004 4d515454 04 02 003c 0003 610062"), 0x81),
    Vector("1.5.4", "client id with a surrogate", 0, h("10 0f 0004 4d515454 04 02 003c 0003 eda080"), 0x81),
    Vector("2.1.4", "larger than any CONNECT may be", 0, h("10 ffffff7f"), -1),
    Vector("2.1.3", "flags on CONNECT", 0, h("11 0f"), -1),
    Vector("3.1.2.11", "session expiry twice", 0,
           h("10 1a 0004 4d515454 05 02 003c 0a 11 00000001 11 00000001 0003 616263"), 0x82),
    Vector("3.1.2.11.3", "receive maximum 0", 0, h("10 13 0004 4d515454 05 02 003c 03 210000 0003 616263"), 0x82),
    Vector("3.1.2.11.4", "maximum packet size 0", 0, h("10 15 0004 4d515454 05 02 003c 05 2700000000 0003 616263"), 0x82),
    Vector("3.1.2.11.6", "request problem information 2", 0, h("10 12 0004 4d515454 05 02 003c 02 1702 0003 616263"), 0x82),
    Vector("3.1.2.11.10", "authentication data without method", 0,
           h("10 14 0004 4d515454 05 02 003c 04 16 000161 0003 616263"), 0x82),
    Vector("2.2.2.2", "property of another packet", 0, h("10 12 0004 4d515454 05 02 003c 02 0101 0003 616263"), 0x82),
    Vector("2.2.2.2", "property that does not exist", 0, h("10 12 0004 4d515454 05 02 003c 02 7f01 0003 616263"), 0x81),
    Vector("2.2.2.1", "property length past the end", 0, h("10 10 0004 4d515454 05 02 003c 7f 0003 616263"), 0x81),
    Vector("3.1.2.11.2", "property cut short", 0, h("10 11 0004 4d515454 05 02 003c 01 11 0003 616263"), 0x81),
]  # fmt: skip

PUBLISHES = [
    Vector("3.3", "QoS 0", V4, h("30 05 0001 74 6869"), {"topic": b"t", "body": b"hi", "qos": 0, "packet_id": 0}),
    Vector("3.3", "QoS 1, retained, repeated", V4, h("3b 07 0001 74 000a 6869"),
           {"qos": 1, "retain": True, "dup": True, "packet_id": 10, "body": b"hi"}),
    Vector("3.3", "QoS 2 without payload", V4, h("34 05 0001 74 000b"), {"qos": 2, "packet_id": 11, "body": b""}),
    Vector("3.3", "5.0 without properties", V5, h("30 06 0001 74 00 6869"), {"body": b"hi"}),
    Vector("3.3.1.2", "QoS 3", V4, h("36 07 0001 74 000a 6869"), 0x81),
    Vector("3.3.1.2", "QoS 3, first byte alone", V4, h("36"), 0x81),
    Vector("3.3.1.1", "DUP with QoS 0", V4, h("38 05 0001 74 6869"), 0x81),
    Vector("2.2.1", "packet id 0", V4, h("32 07 0001 74 0000 6869"), 0x81),
    Vector("2.2.1", "packet id missing", V4, h("32 03 0001 74"), 0x81),
    Vector("3.3.2.1", "topic past the end", V4, h("30 05 0009 74 6869"), 0x81),
    Vector("3.3.2.1", "topic past the end, incomplete", V4, h("30 50 0060 74"), 0x81),
    Vector("3.3.2.1", "no topic", V4, h("30 00"), 0x81),
    Vector("3.3.2.3", "5.0 without a property length", V5, h("30 03 0001 74"), 0x81),
    Vector("3.3.2.3", "topic alias twice", V5, h("30 0a 0001 74 06 230001 230002"), 0x82),
    Vector("3.3.2.3.2", "payload format 2", V5, h("30 06 0001 74 02 0102"), 0x82),
    Vector("1.5.5", "variable byte integer too long", V5, h("30 0a 0001 74 06 0bffffffff01"), 0x81),
    Vector("1.5.5", "remaining length of five bytes", V4, h("30 ffffffff01"), 0x81),
    Vector("1.5.5", "remaining length not in its shortest form", V4, h("30 8500 0001 74 6869"), 0x81),
    Vector("3.2.2.3.6", "larger than the limit", V4, h("30 ffffff7f"), 0x95),
]  # fmt: skip

OTHERS = [
    Vector("3.4", "PUBACK", V4, h("40 02 000a"), {"kind": 4, "packet_id": 10, "code": 0}),
    Vector("3.4.2.1", "5.0 PUBACK with a code", V5, h("40 03 000a 10"), {"code": 0x10}),
    Vector("3.4.2.1", "5.0 PUBACK with an unknown code", V5, h("40 03 000a 11"), 0x81),
    Vector("3.4.2", "3.1.1 PUBACK with a code", V4, h("40 03 000a 00"), 0x81),
    Vector("2.2.1", "PUBACK of packet id 0", V4, h("40 02 0000"), 0x81),
    Vector("3.4", "PUBACK cut short", V4, h("40 01 00"), 0x81),
    Vector("3.5", "PUBREC", V5, h("50 02 000a"), {"kind": 5}),
    Vector("3.6.1", "PUBREL", V4, h("62 02 000a"), {"kind": 6}),
    Vector("3.6.1-1", "PUBREL with flags 0", V4, h("60 02 000a"), 0x81),
    Vector("3.6.2.1", "PUBREL 0x92", V5, h("62 03 000a 92"), {"code": 0x92}),
    Vector("3.7", "PUBCOMP", V4, h("70 02 000a"), {"kind": 7}),
    Vector("3.8", "SUBSCRIBE", V4, h("82 06 000a 0001 74 01"), {"packet_id": 10, "filters": [("t", 1)]}),
    Vector("3.8.1-1", "SUBSCRIBE with flags 0", V4, h("80 06 000a 0001 74 01"), 0x81),
    Vector("3.8.3-2", "SUBSCRIBE without a filter", V4, h("82 02 000a"), 0x82),
    Vector("3.8.3-4", "SUBSCRIBE QoS 3", V4, h("82 06 000a 0001 74 03"), 0x81),
    Vector("3.8.3-4 (3.1.1)", "SUBSCRIBE with 5.0 options below 5.0", V4, h("82 06 000a 0001 74 04"), 0x81),
    Vector("3.8.3.1", "SUBSCRIBE reserved option bits", V5, h("82 07 000a 00 0001 74 41"), 0x81),
    Vector("3.8.3.1", "SUBSCRIBE retain handling 3", V5, h("82 07 000a 00 0001 74 31"), 0x81),
    Vector("3.8.3-4", "SUBSCRIBE shared with no local", V5,
           h("82 10 000a 00 000a 2473686172652f672f74 05"), 0x82),
    Vector("3.8.2.1.2", "SUBSCRIBE identifier 0", V5, h("82 09 000a 02 0b00 0001 74 01"), 0x82),
    Vector("3.8.2.1.2", "SUBSCRIBE identifier twice", V5, h("82 0b 000a 04 0b010b02 0001 74 01"), 0x82),
    Vector("3.8.2.1.2", "SUBSCRIBE identifier", V5, h("82 09 000a 02 0b07 0001 74 2d"), {"filters": [("t", 0x2D)]}),
    Vector("2.2.1", "SUBSCRIBE packet id 0", V4, h("82 06 0000 0001 74 01"), 0x81),
    Vector("3.8.3", "SUBSCRIBE options missing", V4, h("82 05 000a 0001 74"), 0x81),
    Vector("3.10", "UNSUBSCRIBE", V4, h("a2 05 000a 0001 74"), {"filters": ["t"]}),
    Vector("3.10.1-1", "UNSUBSCRIBE with flags 0", V4, h("a0 05 000a 0001 74"), 0x81),
    Vector("3.10.3-2", "UNSUBSCRIBE without a filter", V4, h("a2 02 000a"), 0x82),
    Vector("3.12", "PINGREQ", V4, h("c0 00"), {"kind": 12}),
    Vector("3.12", "PINGREQ with a body", V4, h("c0 01 00"), 0x81),
    Vector("3.14", "DISCONNECT", V4, h("e0 00"), {"code": 0}),
    Vector("3.14.2.1", "5.0 DISCONNECT with will", V5, h("e0 01 04"), {"code": 4}),
    Vector("3.14.2 (3.1.1)", "3.1.1 DISCONNECT with a body", V4, h("e0 01 04"), 0x81),
    Vector("3.14.1-1", "DISCONNECT with flags", V5, h("e1 00"), 0x81),
    Vector("3.14.2", "5.0 DISCONNECT with bytes left over", V5, h("e0 03 00 00 00"), 0x81),
    Vector("3.15", "AUTH below 5.0", V4, h("f0 00"), 0x82),
    Vector("2.1.2", "type 0", V4, h("00 00"), 0x81),
    Vector("2.1.2", "type 0, first byte alone", V4, h("00"), 0x81),
    Vector("3.1.0-2", "second CONNECT", V4, h(C4), 0x82),
    Vector("3.1.0-2", "second CONNECT, incomplete", V5, h("10 02 01"), 0x82),
    Vector("3.2", "CONNACK from a client", V4, h("20 02 0000"), 0x82),
    Vector("3.9", "SUBACK from a client", V4, h("90 03 000a 00"), 0x82),
    Vector("3.13", "PINGRESP from a client", V4, h("d0 00"), 0x82),
]  # fmt: skip

ALL = CONNECTS + PUBLISHES + OTHERS
