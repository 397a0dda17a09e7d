"""Source of the spaces that gateways copy (space_copies.py): values of the store's state, and those that its node reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, final

from domain.store.store_ports import State
from protocols.remoting.nodes.calls.octets import DATA, TEXT, Out, optional
from protocols.remoting.nodes.forwarding import item

COPIED: Final = ("access", "oscore")
"""Names of the spaces."""
_VALUE: Final = optional(DATA)


@final
class SpaceSource:
    """The values of the spaces COPIED and of reported ones, as items of the stream to a gateway."""

    def __init__(self, state: State, changed: Callable[[Out], None]) -> None:
        """`changed`: called with the item of each value that is there or has changed."""
        self._changed = changed
        self._values: dict[str, dict[bytes, bytes]] = {space: {} for space in COPIED}
        for space in COPIED:
            state.follow(space, partial(self._put, space))

    def items(self) -> Iterator[Out]:
        """An item for each value."""
        for space, values in self._values.items():
            for key, value in values.items():
                yield _item(space, key, value)

    def report(self, space: str, key: bytes, value: bytes) -> None:
        """Set a value of a space that is not of the state."""
        if self._values.setdefault(space, {}).get(key) != value:
            self._put(space, key, value)

    def _put(self, space: str, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._values[space].pop(key, None)
        else:
            self._values[space][key] = value
        self._changed(_item(space, key, value))


def _item(space: str, key: bytes, value: bytes | None) -> Out:
    out: Out = [bytes((item.VALUE,))]
    TEXT.put(out, space)
    DATA.put(out, key)
    _VALUE.put(out, value)
    return out
