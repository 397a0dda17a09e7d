"""Copies of small spaces of the store's state, at a gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from protocols.remoting.nodes.calls.octets import DATA, TEXT, Reader, optional

_VALUE: Final = optional(DATA)


@final
class SpaceCopies:
    """Small spaces of the store's state, kept up to date over the stream: `follow` of domain.store.store_ports.State.

    ready   True: users and policies have arrived
    """

    def __init__(self) -> None:
        self.ready = False
        self._values: dict[str, dict[bytes, bytes]] = {}
        self._coming: dict[str, dict[bytes, bytes]] | None = {}
        self._followers: dict[str, list[Callable[[bytes, bytes | None], None]]] = {}

    def follow(self, space: str, changed: Callable[[bytes, bytes | None], None]) -> None:
        """State.follow."""
        for key, value in self._values.get(space, {}).items():
            changed(key, value)
        self._followers.setdefault(space, []).append(changed)

    def begin(self) -> None:
        """Start a new transfer of all values."""
        self._coming = {}

    def value(self, reader: Reader) -> None:
        """Store the value of an item VALUE."""
        space, key, value = TEXT.get(reader), DATA.get(reader), _VALUE.get(reader)
        if self._coming is not None:
            if value is not None:
                self._coming.setdefault(space, {})[key] = value
        else:
            self._change(space, key, value)

    def complete(self, _reader: Reader) -> None:
        """End a transfer, by an item COMPLETE: known values that it did not contain are removed."""
        coming, self._coming = self._coming or {}, None
        for space in {*coming, *self._values}:
            new, old = coming.get(space, {}), dict(self._values.get(space, {}))
            for key in old:
                if key not in new:
                    self._change(space, key, None)
            for key, value in new.items():
                if old.get(key) != value:
                    self._change(space, key, value)
        self.ready = True

    def _change(self, space: str, key: bytes, value: bytes | None) -> None:
        known = self._values.setdefault(space, {})
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
        for changed in self._followers.get(space, ()):
            changed(key, value)
