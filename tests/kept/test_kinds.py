"""Commands and events as nodes of 44998bdc send them to each other are read, and written byte for byte as they were."""

from __future__ import annotations

import pytest

from protocols.remoting.nodes.calls.octets import Out, Reader
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS, EVENT_KINDS, Kinds
from tests.kept.shown import differences, shown
from tests.kept.vectors import load

TABLES = {"commands": COMMAND_KINDS, "events": EVENT_KINDS}
COUNTS = {"commands": 131, "events": 83}
"""Kinds of 44998bdc."""


@pytest.mark.parametrize("family", TABLES)
def test_every_kind_is_read_as_it_was_meant_and_written_as_it_was(family: str) -> None:
    kinds: Kinds = TABLES[family]
    wrong: list[str] = []
    names: dict[str, int] = {}
    for vector in load(family):
        names[vector.name.split()[0]] = int.from_bytes(vector.data[:2], "big")
        reader = Reader(vector.data)
        value = kinds.get(reader)
        wrong += [f"{vector.name}{each}" for each in differences(vector.value, shown(value))]
        out: Out = []
        kinds.of[type(value)].put(out, value)
        if b"".join(out) != vector.data or reader.left:
            wrong.append(f"{vector.name}: {b''.join(out).hex()} instead of {vector.data.hex()}")
    assert wrong == []
    assert list(names.values()) == list(range(COUNTS[family])), "a number is never given again"
