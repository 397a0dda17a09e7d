"""Twenty thousand mutated packets with a fixed seed; `tests/conformance/fuzz.py` runs any number."""

from __future__ import annotations

from tests.conformance.fuzz import Fuzz, must_end
from tests.protocols.mqtt.vectors import ALL, CONNECTS, h


def test_mutated_packets() -> None:
    fuzz = Fuzz(20_260_721)
    fuzz.round(20_000)
    assert fuzz.malformed > 500
    assert fuzz.ends["open"] > 100
    assert {"malformed", "protocol-error", "not-mqtt", "goodbye"} <= set(fuzz.ends)


def test_the_judge_agrees_with_the_vectors() -> None:
    """Two readings of the specification: the table of packets was made for the other one."""
    connect = {version: h(text) for version, text in ((4, "10 0f 0004 4d515454 04 02 003c 0003 616263"),
                                                      (5, "10 10 0004 4d515454 05 02 003c 00 0003 616263"))}  # fmt: skip
    for vector in ALL:
        data = vector.data if vector in CONNECTS else connect[vector.version] + vector.data
        goodbye = data[-len(vector.data)] >> 4 == 14
        incomplete = "incomplete" in vector.name or "alone" in vector.name or "arger than" in vector.name
        if incomplete or (vector.data[:1] in b"\x11" and len(vector.data) == 2):
            continue
        assert must_end(data) is (isinstance(vector.expected, int) or goodbye), vector.name
