"""A page of groups that a gateway asks the store's node for."""

from __future__ import annotations

from functools import partial
from typing import Any

from domain.admin.group import ListGroups
from protocols.remoting.nodes.calls.octets import Out, Reader
from protocols.remoting.nodes.forwarding.kind import COMMAND_KINDS
from tests.kept.exchanges.exchange import Exchange, Exchanges


def _written(command: ListGroups) -> bytes:
    out: Out = []
    COMMAND_KINDS.of[ListGroups].put(out, command)
    return b"".join(out)


def _read(data: bytes) -> Any:
    reader = Reader(data)
    found = COMMAND_KINDS.get(reader)
    assert not reader.left
    return found


PAGES: Exchanges = {
    "first page of groups": Exchange(partial(_written, ListGroups(None, "", 2_002)), _read),
    "page of groups": Exchange(partial(_written, ListGroups(None, "gröup", 1_001)), _read),
}
