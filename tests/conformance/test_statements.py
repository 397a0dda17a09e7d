"""What one client says and what the server has to say to it: a row for each normative statement, by its number, in our words.

Numbers are those of MQTT 5.0 (OASIS, appendix B); those of 3.1.1 that have another number stand in brackets. A row says
what is sent behind an accepted CONNECT, or instead of it where it begins with `!`, and what is heard, as
`tests.conformance.script` writes it.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from protocols.mqtt.connect import Connect
from protocols.mqtt.packet import Packet, encode
from protocols.mqtt.property import NONE
from tests.conformance.script import heard
from tests.protocols.mqtt.stage import Broker
from tests.protocols.mqtt.vectors import h

C4, C5 = "10 0d 0004 4d515454 04 02 0000 0001 63", "10 0e 0004 4d515454 05 02 0000 00 0001 63"
DEEP = 65_535
SHUT = ["closed"]
IN = ["CONNACK 00"]


def no(code: str) -> list[str]:
    """CONNACK refuses."""
    return [f"CONNACK {code}", "closed"]


def bye(code: str) -> list[str]:
    """DISCONNECT says why."""
    return [f"DISCONNECT {code}", "closed"]


BAD, WRONG = bye("81"), bye("82")


class Row(NamedTuple):
    """`sent` in hexadecimal; `four`, `five`: what 3.1.1 and 5.0 hear, None: the row is not for that version."""

    numbers: str
    rule: str
    sent: str
    four: list[str] | None
    five: list[str] | None


def both(numbers: str, rule: str, sent: str, four: list[str], five: list[str]) -> Row:
    return Row(numbers, rule, sent, four, five)


def of_5(numbers: str, rule: str, sent: str, five: list[str]) -> Row:
    return Row(numbers, rule, sent, None, five)


def of_4(numbers: str, rule: str, sent: str, four: list[str]) -> Row:
    return Row(numbers, rule, sent, four, None)


DATA = [
    of_4("MQTT-1.5.4-1 (1.5.3-1)", "a topic is well-formed UTF-8", "30 04 0002 c328", SHUT),
    of_5("MQTT-1.5.4-1", "a topic is well-formed UTF-8", "30 05 0002 c328 00", BAD),
    of_4("MQTT-1.5.4-1 (1.5.3-1)", "no surrogates", "30 05 0003 eda080", SHUT),
    of_5("MQTT-1.5.4-1", "no surrogates", "30 06 0003 eda080 00", BAD),
    of_4("MQTT-1.5.4-2 (1.5.3-2)", "no U+0000", "30 05 0003 610062", SHUT),
    of_5("MQTT-1.5.4-2", "no U+0000", "30 06 0003 610062 00", BAD),
    of_5("MQTT-1.5.4-2", "no U+0000 in a filter", "82 09 0001 00 0003 610062 00", BAD),
    of_5("MQTT-1.5.5-1", "a variable byte integer in its shortest form", "30 8500 0001 74 00 68", BAD),
    of_5("MQTT-1.5.7-1", "the key of a user property is well-formed", "30 0b 0001 74 07 26 0001 ff 0001 61", BAD),
    of_5("MQTT-1.5.7-1", "its value too", "30 0b 0001 74 07 26 0001 61 0001 ff", BAD),
]

HEADERS = [
    both("MQTT-2.1.3-1 (2.2.2-1, -2)", "reserved flags of PINGREQ", "c1 00", SHUT, BAD),
    both("MQTT-2.1.3-1", "reserved flags of PUBACK", "41 02 0001", SHUT, BAD),
    both("MQTT-2.1.3-1", "reserved flags of PUBREC", "58 02 0001", SHUT, BAD),
    both("MQTT-2.1.3-1", "reserved flags of PUBCOMP", "74 02 0001", SHUT, BAD),
    both("MQTT-2.1.2", "packet type 0 is reserved", "00 00", SHUT, BAD),
    of_4("MQTT-2.1.2", "packet type 15 is reserved in 3.1.1", "f0 00", SHUT),
    both("MQTT-2.2.1-3 (2.3.1-1)", "a PUBLISH with packet id 0", "32 05 0001 74 0000", SHUT, BAD),
    both("MQTT-2.2.1-5 (2.3.1-6)", "PUBACK has the id of its PUBLISH",
         "32 06 0001 74 1234 00", ["PUBACK 4660"], ["PUBACK 4660"]),
    both("MQTT-2.2.1-5", "PUBREC too", "34 06 0001 74 1234 00", ["PUBREC 4660"], ["PUBREC 4660"]),
    of_4("MQTT-2.2.1-6 (2.3.1-7)", "SUBACK has the id of its SUBSCRIBE", "82 06 1234 0001 74 00", ["SUBACK 4660 00"]),
    of_5("MQTT-2.2.1-6", "SUBACK has the id of its SUBSCRIBE", "82 07 1234 00 0001 74 00", ["SUBACK 4660 00"]),
    of_5("MQTT-2.2.2-1", "a property length has to be there", "82 06 0001 0001 74 00", BAD),
]  # fmt: skip

CONNECTS = [
    both("MQTT-3.1.0-1", "the first packet is CONNECT", "! c0 00", SHUT, SHUT),
    both("MQTT-3.1.0-2", "and the only one", C5, SHUT, WRONG),
    both("MQTT-3.1.2-1", "the protocol has a name", "! 10 0d 0004 4d515458 04 02 0000 0001 63", SHUT, SHUT),
    of_4("MQTT-3.1.2-2", "a version that is not served", "! 10 0d 0004 4d515454 02 02 0000 0001 63", no("01")),
    of_5("MQTT-3.1.2-2", "a version that is not served", "! 10 0d 0004 4d515454 06 02 0000 0001 63", no("84")),
    of_4("MQTT-3.1.2-3", "the reserved flag is 0", "! 10 0d 0004 4d515454 04 03 0000 0001 63", SHUT),
    of_5("MQTT-3.1.2-3", "the reserved flag is 0", "! 10 0e 0004 4d515454 05 03 0000 00 0001 63", no("81")),
    of_5("MQTT-3.1.2-9 (3.1.2-9)", "a will has its fields", "! 10 0e 0004 4d515454 05 06 0000 00 0001 63", no("81")),
    of_5("MQTT-3.1.2-11 (3.1.2-13)", "no will, no QoS of it", "! 10 0e 0004 4d515454 05 0a 0000 00 0001 63", no("81")),
    of_5("MQTT-3.1.2-12 (3.1.2-14)", "a will has QoS 0, 1 or 2",
         "! 10 13 0004 4d515454 05 1e 0000 00 0001 63 00 0001 74 0000", no("81")),
    of_5("MQTT-3.1.2-13 (3.1.2-15)", "no will, no retaining it", "! 10 0e 0004 4d515454 05 22 0000 00 0001 63", no("81")),
    of_5("MQTT-3.1.2-16 (3.1.2-18)", "no user name that was not announced",
         "! 10 11 0004 4d515454 05 02 0000 00 0001 63 0001 75", no("81")),
    of_5("MQTT-3.1.2-17 (3.1.2-19)", "a user name that was", "! 10 0e 0004 4d515454 05 82 0000 00 0001 63", no("81")),
    of_5("MQTT-3.1.2-19 (3.1.2-21)", "a password that was", "! 10 0e 0004 4d515454 05 42 0000 00 0001 63", no("81")),
    of_4("[MQTT-3.1.2-22]", "no password without a user name", "! 10 10 0004 4d515454 04 42 0000 0001 63 0001 70", SHUT),
    of_5("MQTT-3.1.3-3", "the client id is there", "! 10 0b 0004 4d515454 05 02 0000 00", no("81")),
    of_5("MQTT-3.1.3-4", "and is UTF-8", "! 10 0e 0004 4d515454 05 02 0000 00 0001 ff", no("81")),
    both("MQTT-3.1.3-5", "an id of 23 letters and digits is taken",
         "! 10 24 0004 4d515454 05 02 0000 00 0017 " + "61" * 23, IN, IN),
    both("MQTT-3.1.3-6", "an empty one too", "! 10 0d 0004 4d515454 05 02 0000 00 0000", IN, IN),
    of_4("[MQTT-3.1.3-8]", "but in 3.1.1 not with a session", "! 10 0c 0004 4d515454 04 00 0000 0000", no("02")),
    of_5("MQTT-3.1.3-8", "an id that is refused", "! 10 0e 0004 4d515454 05 02 0000 00 0001 01", no("85")),
    of_5("MQTT-3.1.3-11 (3.1.3-10)", "a will's topic is UTF-8",
         "! 10 14 0004 4d515454 05 06 0000 00 0001 63 00 0001 ff 0000 00", no("81")),
    of_5("MQTT-3.1.3-12 (3.1.3-11)", "so is a user name", "! 10 11 0004 4d515454 05 82 0000 00 0001 63 0001 ff", no("81")),
    of_5("MQTT-3.1.4-5", "CONNACK 0x00 lets in", "! " + C5, IN),
    of_4("[MQTT-3.1.4-4]", "CONNACK 0 lets in", "! " + C4, IN),
    of_5("MQTT-3.1.4-6", "nothing behind a refused CONNECT counts",
         "! 10 0e 0004 4d515454 05 02 0000 00 0001 01 c000", no("85")),
]  # fmt: skip

PUBLISHES = [
    both("MQTT-3.3.1-2", "no repetition at QoS 0", "38 04 0001 74 00", SHUT, BAD),
    both("MQTT-3.3.1-4", "no QoS 3", "36 06 0001 74 0001 00", SHUT, BAD),
    of_4("MQTT-3.3.2-1", "a topic is a string", "30 02 0005", SHUT),
    of_5("MQTT-3.3.2-2", "no wildcard in a topic name", "30 06 0003 612f2b 00", bye("90")),
    of_4("MQTT-3.3.2-2", "no wildcard in a topic name", "30 05 0003 612f23", SHUT),
    of_5("MQTT-3.3.2-8", "no topic alias 0", "30 07 0001 74 03 23 0000", bye("94")),
    of_5("MQTT-3.3.2-9", "none above the maximum", "30 07 0001 74 03 23 ffff", bye("94")),
    of_5("MQTT-3.3.2-12", "every one up to it is taken", "32 09 0001 74 0001 03 23 0040 32 08 0000 0002 03 23 0040",
         ["PUBACK 1", "PUBACK 2"]),
    of_5("MQTT-3.3.2-13", "a response topic is UTF-8", "30 08 0001 74 04 08 0001 ff", BAD),
    of_5("MQTT-3.3.2-14", "without wildcards", "30 08 0001 74 04 08 0001 23", WRONG),
    of_5("MQTT-3.3.2-19", "a content type is UTF-8", "30 08 0001 74 04 03 0001 ff", BAD),
    of_5("MQTT-3.3.4-6", "no subscription identifier from a client", "30 06 0001 74 02 0b01", WRONG),
    both("MQTT-3.3.4-1", "QoS 0 is not answered", "30 04 0001 74 00 c000", ["PINGRESP"], ["PINGRESP"]),
    both("MQTT-3.6.1-1", "flags of PUBREL", "60 02 0001", SHUT, BAD),
    both("MQTT-4.3.3-11", "also one for nothing", "62 02 0009", ["PUBCOMP 9"], ["PUBCOMP 9 92"]),
    both("MQTT-4.6.0-2 (4.6.0-2)", "PUBACKs come in the order of their messages",
         "32 06 0001 74 0003 00 32 06 0001 75 0001 00 32 06 0001 74 0002 00", ["PUBACK 3", "PUBACK 1", "PUBACK 2"],
         ["PUBACK 3", "PUBACK 1", "PUBACK 2"]),
    both("MQTT-4.6.0-3 (4.6.0-3)", "so do PUBRECs",
         "34 06 0001 74 0003 00 34 06 0001 75 0001 00", ["PUBREC 3", "PUBREC 1"], ["PUBREC 3", "PUBREC 1"]),
    of_5("MQTT-3.4.2-1", "a client's PUBACK has a code that there is", "40 03 0001 01", BAD),
    of_5("MQTT-3.5.2-1", "its PUBREC too", "50 03 0001 92", BAD),
    of_5("MQTT-3.6.2-1", "its PUBREL too", "62 03 0001 80", BAD),
    of_5("MQTT-3.7.2-1", "its PUBCOMP too", "70 03 0001 10", BAD),
]  # fmt: skip

SUBSCRIPTIONS = [
    both("MQTT-3.8.1-1", "flags of SUBSCRIBE", "80 06 0001 0001 74 00", SHUT, BAD),
    of_5("MQTT-3.8.3-1", "filters are UTF-8", "82 07 0001 00 0001 ff 00", BAD),
    of_5("MQTT-3.8.3-2 (3.8.3-3)", "at least one filter", "82 03 0001 00", WRONG),
    of_4("[MQTT-3.8.3-3]", "at least one filter", "82 02 0001", SHUT),
    of_5("MQTT-3.8.3-4", "no No Local on a share", "82 10 0001 00 000a 2473686172652f672f74 05", WRONG),
    of_5("MQTT-3.8.3-5", "reserved option bits", "82 07 0001 00 0001 74 c0", BAD),
    of_4("[MQTT-3.8.3-4]", "reserved option bits", "82 06 0001 0001 74 04", SHUT),
    of_4("MQTT-3.8.4-1, -2, -6, MQTT-3.9.3-1", "SUBACK answers each filter in order",
         "82 12 0007 0001 61 02 0003 612f23 01 0003 23 2f 61 00",
         ["SUBACK 7 02 01 80"]),
    of_5("MQTT-3.8.4-6, MQTT-3.9.3-2", "with a code of its own",
         "82 11 0007 00 0001 61 02 0001 62 01 0003 232f61 00", ["SUBACK 7 02 01 8f"]),
    both("MQTT-3.10.1-1", "flags of UNSUBSCRIBE", "a0 05 0001 0001 74", SHUT, BAD),
    of_5("MQTT-3.10.3-1", "filters are UTF-8", "a2 06 0001 00 0001 ff", BAD),
    of_5("MQTT-3.10.3-2", "at least one filter", "a2 03 0001 00", WRONG),
    of_4("MQTT-3.10.4-4, -5", "UNSUBACK, also where there was nothing", "a2 05 0009 0001 74", ["UNSUBACK 9"]),
    of_5("MQTT-3.10.4-4, -6, MQTT-3.11.3-1", "UNSUBACK says so of each",
         "a2 09 0009 00 0001 74 0001 75", ["UNSUBACK 9 11 11"]),
    of_5("MQTT-4.7.1-1 (4.7.1-2)", "# stands alone and last",
         "82 0e 0001 00 0002 6123 00 0003 232f61 00", ["SUBACK 1 8f 8f"]),
    of_5("MQTT-4.7.1-2 (4.7.1-3)", "+ stands alone", "82 08 0001 00 0002 612b 00", ["SUBACK 1 8f"]),
    of_5("MQTT-4.7.3-1", "a filter has a character", "82 06 0001 00 0000 00", ["SUBACK 1 8f"]),
    of_4("MQTT-4.7.3-1", "so has a topic", "30 02 0000", SHUT),
]  # fmt: skip

GOODBYES = [
    both("MQTT-3.12.4-1", "PINGREQ is answered", "c0 00", ["PINGRESP"], ["PINGRESP"]),
    both("MQTT-3.14.1-1", "flags of DISCONNECT", "e1 00", SHUT, BAD),
    both("MQTT-3.14.4-2", "DISCONNECT closes", "e0 00", SHUT, SHUT),
    both("MQTT-3.14.4-1", "and nothing behind it counts", "e0 00 c0 00", SHUT, SHUT),
    *(of_5("MQTT-3.14.2-1", f"a client has no reason {code}", f"e0 01 {code}", WRONG)
      for code in ("01", "87", "89", "8b", "8d", "8e", "98", "9c", "a2", "ff")),
    *(of_5("MQTT-3.14.2-1", f"a client may say {code}", f"e0 01 {code}", SHUT)
      for code in ("00", "04", "80", "81", "82", "83", "90", "93", "94", "95", "96", "97", "99")),
    of_5("MQTT-3.14.2-2", "no session expiry where CONNECT had none", "e0 07 00 05 11 00000005", WRONG),
    of_5("MQTT-3.14.2.2.5", "no server reference from a client", "e0 06 00 04 1c 0001 61", WRONG),
    of_5("MQTT-3.15.1-1", "flags of AUTH", "f1 00", BAD),
    of_5("MQTT-4.12.0-6", "AUTH where CONNECT had no method", "f0 06 19 04 15 0001 61", WRONG),
    of_5("MQTT-4.13.1-1", "a malformed packet closes, with a word", "82 01 00", BAD),
]  # fmt: skip

ROWS = [
    pytest.param(row, version, id=f"{row.numbers} {row.rule} ({version})")
    for row in DATA + HEADERS + CONNECTS + PUBLISHES + SUBSCRIPTIONS + GOODBYES
    for version in (4, 5)
    if (row.four if version == 4 else row.five) is not None
]


@pytest.mark.parametrize(("row", "version"), ROWS)
def test_statement(row: Row, version: int) -> None:
    client = Broker().client(version)
    sent = row.sent
    if not sent.startswith("!"):
        client.connect("c")
        client.take()
    data = h(sent.removeprefix("!"))
    if version == 4 and sent.startswith("!"):
        data = _as_4(data)
    client.send(data)
    assert heard(client) == (row.four if version == 4 else row.five)


def _as_4(data: bytes) -> bytes:
    """A CONNECT of 5.0 without properties, as 3.1.1 has it; anything else as it is."""
    if data[:1] != b"\x10" or data[8] != 5:
        return data
    return bytes((0x10, data[1] - 1)) + data[2:8] + b"\x04" + data[9:12] + data[13:]


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_4_2_0_1_packets_are_a_stream(version: int, size: int) -> None:
    """However the bytes are cut, the packets are the same; CONNACK comes first, and once (MQTT-3.2.0-1, -2)."""
    broker = Broker()
    client = broker.client(version)
    packets: list[Packet] = [Connect(version, "c", True, 0, None, None, None, NONE)]
    data = b"".join(encode(packet, version) for packet in packets) + h("c0 00 c0 00")
    for at in range(0, len(data), size):
        client.send(data[at : at + size])
    assert heard(client) == ["CONNACK 00", "PINGRESP", "PINGRESP"]


@pytest.mark.parametrize("bytes_", [0, 1, DEEP])
def test_4_7_3_3_a_topic_has_at_most_so_many_bytes(bytes_: int) -> None:
    """65,535 bytes are the format's limit; ours is 4,096, and one above it is refused and not cut."""
    client = Broker().client(5)
    client.connect("c")
    client.take()
    client.publish("x" * bytes_)
    assert heard(client) == {0: WRONG, 1: ["PUBACK 1"], DEEP: bye("90")}[bytes_]
