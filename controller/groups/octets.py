"""Texts, numbers and lists as bytes: text 2 + n UTF-8 | number 8, signed | flag 1 | list 2 + its elements; big-endian."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Final, TypeVar, final

from domain.controller.controller_list import ControllerList, ControllerPlace
from domain.controller.group import ReplicaReport, SetMember

_COUNT: Final = struct.Struct(">H")
_NUMBER: Final = struct.Struct(">q")

Element = TypeVar("Element")


def text(value: str) -> bytes:
    """A text of at most 65,535 bytes."""
    data = value.encode()
    return _COUNT.pack(len(data)) + data


def number(value: int) -> bytes:
    """A signed integer of 64 bits."""
    return _NUMBER.pack(value)


def flag(value: bool) -> bytes:
    """A truth value."""
    return b"\1" if value else b"\0"


def members(values: Iterable[SetMember]) -> bytes:
    """Members of a SyncStateSet."""
    return _listed([number(each.id) + text(each.incarnation) for each in values])


def numbers(values: Iterable[int]) -> bytes:
    """A list of numbers."""
    return _listed([number(each) for each in values])


def texts(values: Iterable[str]) -> bytes:
    """A list of texts."""
    return _listed([text(each) for each in values])


def reports(values: Iterable[ReplicaReport]) -> bytes:
    """Encode reports of replicas."""
    return _listed(
        [
            number(each.id) + text(each.incarnation) + number(each.epoch) + number(each.position) + number(each.priority)
            for each in values
        ]
    )


def book(value: ControllerList) -> bytes:
    """The controllers."""
    return number(value.number) + _listed([text(each.address) + number(each.node) for each in value.places])


def _listed(items: list[bytes]) -> bytes:
    return _COUNT.pack(len(items)) + b"".join(items)


@final
class OctetReader:
    """Reader of the encodings of this file. Every method raises ValueError for other bytes."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def finish(self) -> None:
        """Nothing may follow."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow the last value")

    def text(self) -> str:
        """A text."""
        return self._take(self.count()).decode()

    def number(self) -> int:
        """A number."""
        found: int = _NUMBER.unpack(self._take(_NUMBER.size))[0]
        return found

    def flag(self) -> bool:
        """A truth value."""
        found = self._take(1)[0]
        if found > 1:
            raise ValueError(f"{found} is no truth value")
        return found == 1

    def count(self) -> int:
        """The length of a list."""
        found: int = _COUNT.unpack(self._take(_COUNT.size))[0]
        return found

    def list_of(self, element: Callable[[], Element]) -> tuple[Element, ...]:
        """List whose elements `element` reads."""
        return tuple(element() for _ in range(self.count()))

    def members(self) -> tuple[SetMember, ...]:
        """Members of a SyncStateSet."""
        return self.list_of(lambda: SetMember(self.number(), self.text()))

    def numbers(self) -> tuple[int, ...]:
        """A list of numbers."""
        return self.list_of(self.number)

    def texts(self) -> tuple[str, ...]:
        """A list of texts."""
        return self.list_of(self.text)

    def reports(self) -> tuple[ReplicaReport, ...]:
        """Reports of replicas."""
        return self.list_of(
            lambda: ReplicaReport(self.number(), self.text(), self.number(), self.number(), self.number()),
        )

    def book(self) -> ControllerList:
        """List of the controllers."""
        return ControllerList(self.number(), self.list_of(lambda: ControllerPlace(self.text(), self.number())))

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"the bytes end at {len(self._data)}, within a value")
        found = self._data[self._at : end]
        self._at = end
        return found
