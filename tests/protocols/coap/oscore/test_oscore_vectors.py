"""The test vectors of RFC 8613, appendix C, and the syntax of the OSCORE option."""

from __future__ import annotations

import pytest

from domain.access.oscore import OscoreContext
from protocols.coap.message import message
from protocols.coap.oscore import cose
from protocols.coap.oscore.association import WINDOW, Keys, ReplayWindow, derived

SECRET = bytes(range(1, 17))
SALT = bytes.fromhex("9e7ca92223786340")
ID_CONTEXT = bytes.fromhex("37cbf3210017a2d3")
ONE = OscoreContext("u", b"", b"\x01", SECRET, SALT)
TWO = OscoreContext("u", b"\x00", b"\x01", SECRET)
THREE = OscoreContext("u", b"", b"\x01", SECRET, SALT, ID_CONTEXT)


@pytest.mark.parametrize(
    ("context", "device_key", "node_key", "common_iv"),
    [
        (ONE, "f0910ed7295e6ad4b54fc793154302ff", "ffb14e093c94c9cac9471648b4f98710", "4622d4dd6d944168eefb54987c"),
        (TWO, "321b26943253c7ffb6003b0b64d74041", "e57b5635815177cd679ab4bcec9d7dda", "be35ae297d2dace910c52e99f9"),
        (THREE, "af2a1300a5e95788b356336eeecd2b92", "e39a0c7c77b43f03b4b39ab9a268699f", "2ca58fb85ff1b81c0b7181b85e"),
    ],
)
def test_key_derivation(context: OscoreContext, device_key: str, node_key: str, common_iv: str) -> None:
    """C.1.1 with a salt, C.2.1 without one, C.3.1 with an ID Context."""
    assert derived(context, context.device_id, "Key", 16).hex() == device_key
    assert derived(context, context.node_id, "Key", 16).hex() == node_key
    assert derived(context, b"", "IV", 13).hex() == common_iv


@pytest.mark.parametrize(
    ("context", "protected", "plain"),
    [
        (
            ONE,
            "44025d1f00003974396c6f63616c686f7374620914ff612f1092f1776f1c1668b3825e",
            "44015d1f00003974396c6f63616c686f737483747631",
        ),
        (
            TWO,
            "440271c30000b932396c6f63616c686f737463091400ff4ed339a5a379b0b8bc731fffb0",
            "440171c30000b932396c6f63616c686f737483747631",
        ),
        (
            THREE,
            "44022f8eef9bbf7a396c6f63616c686f73746b19140837cbf3210017a2d3ff72cd7273fd331ac45cffbe55c3",
            "44012f8eef9bbf7a396c6f63616c686f737483747631",
        ),
    ],
)
def test_a_request_is_opened(context: OscoreContext, protected: str, plain: str) -> None:
    """C.4, C.5 and C.6: GET coap://localhost/tv1, sequence number 20."""
    packet = message.decode(bytes.fromhex(protected))
    assert packet is not None
    header = cose.read(dict(packet.options)[9])
    assert header is not None
    assert (header.kid, header.id_context, header.piv) == (context.device_id, context.id_context, b"\x14")
    inside = message.decode(bytes.fromhex(plain))
    assert inside is not None
    assert Keys(context).open(header.piv, packet.payload) == bytes((inside.code,)) + message.join([(11, b"tv1")])


@pytest.mark.parametrize(
    ("piv", "protected"),
    [
        (b"", "64445d1f0000397490ffdbaad1e9a7e7b2a813d3c31524378303cdafae119106"),
        (b"\x00", "64445d1f00003974920100ff4d4c13669384b67354b2b6175ff4b8658c666a6cf88e"),
    ],
)
def test_a_response_is_sealed(piv: bytes, protected: str) -> None:
    """C.7 with the nonce of the request, C.8 with a number of its own: 2.05 `Hello World!`."""
    packet = message.decode(bytes.fromhex(protected))
    assert packet is not None
    assert packet.options == [(9, cose.option(piv))]
    assert Keys(ONE).seal(b"\x14", piv, b"\x45\xffHello World!") == packet.payload


def test_what_was_changed_is_not_opened() -> None:
    ciphertext = bytes.fromhex("612f1092f1776f1c1668b3825e")
    for at in range(len(ciphertext)):
        changed = bytearray(ciphertext)
        changed[at] ^= 1
        assert Keys(ONE).open(b"\x14", bytes(changed)) is None
    assert Keys(ONE).open(b"\x15", ciphertext) is None
    for size in range(len(ciphertext)):
        assert Keys(ONE).open(b"\x14", ciphertext[:size]) is None


@pytest.mark.parametrize("number", [1, 3, 10, 11, 24, 30, 31])
def test_every_algorithm_seals_and_opens(number: int) -> None:
    here = OscoreContext("u", b"\x01", b"\x02", SECRET, algorithm=number)
    there = OscoreContext("u", b"\x02", b"\x01", SECRET, algorithm=number)
    assert here.fault == ""
    sealed = Keys(there).seal(b"\x07", b"\x05", b"hello")
    nonce = cose.nonce(Keys(here).common_iv, b"\x01", b"\x05")
    data = cose.additional_data(number, there.device_id, b"\x07")
    assert Keys(here)._device.decrypt(nonce, sealed, data) == b"hello"


NO_HEADERS = [
    "",
    "00",
    "0105",
    "09",
    "8914",
    "4914",
    "2914",
    "0e" + "01" * 6,
    "0f" + "01" * 7,
    "1914",
    "191405aa",
    "0a0014",
    "0801",
]


@pytest.mark.parametrize("value", NO_HEADERS)
def test_what_is_no_header_of_a_request(value: str) -> None:
    """Empty, without kid or Partial IV, reserved bits and lengths, cut short, a leading zero in a Partial IV."""
    assert cose.read(bytes.fromhex(value)) is None


def test_partial_ivs_are_as_short_as_they_can_be() -> None:
    assert [cose.partial_iv(number).hex() for number in (0, 1, 255, 256, (1 << 40) - 1)] == ["00", "01", "ff", "0100", "f" * 10]


def test_each_number_within_the_window_is_fresh_once() -> None:
    window = ReplayWindow(100)
    assert [number for number in range(200) if window.fresh(number)] == list(range(101, 200))
    window.mark(140)
    assert [number for number in range(141) if window.fresh(number)] == list(range(140 - WINDOW + 1, 140))
    window.mark(120)
    assert not window.fresh(120)
    assert window.fresh(121)
    window.mark(10_000)
    assert not window.fresh(140)
    assert window.fresh(10_000 - WINDOW + 1)
    assert not window.fresh(10_000 - WINDOW)
