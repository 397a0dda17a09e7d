"""Numbers, texts and bytes of frames between nodes. All numbers are big-endian."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar, final

from domain.errors import GatewayError

T = TypeVar("T")

ITEMS_MAX: Final = 1 << 20
"""Most items of one list."""
_I64: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">I")


class WireError(GatewayError):
    """Bytes of another node cannot be read: its connection has to be closed."""


@final
class Reader:
    """Takes values from bytes of another node, one after the other. Raises WireError when too few bytes are left.

    at      place of the next value, in bytes from the beginning
    sized   False: nobody knows where the item with the next value ends
    """

    def __init__(self, data: bytes, at: int = 0, end: int = -1) -> None:
        self._data = data
        self._end = len(data) if end < 0 else end
        self.at = at
        self.sized = True

    def bound(self, end: int) -> None:
        """Let values be taken up to place `end`, which is within the bytes, and no further."""
        self._end = end

    @property
    def left(self) -> int:
        """Number of bytes that have not been taken."""
        return self._end - self.at

    def unpack(self, shape: struct.Struct) -> tuple[Any, ...]:
        """The next numbers, in the layout `shape`."""
        at = self.at
        self.at = at + shape.size
        if self.at > self._end:
            raise WireError(f"{shape.size} bytes are missing at {at} of {self._end}")
        return shape.unpack_from(self._data, at)

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        at = self.at
        if size > self._end - at:
            raise WireError(f"{size} bytes are missing at {at} of {self._end}")
        self.at = at + size
        return self._data[at : self.at]

    def data(self) -> bytes:
        """The next length, 4 bytes, and that many bytes."""
        return self.take(self.unpack(_SIZE)[0])

    def text(self) -> str:
        """The next text: as `data`, in UTF-8. Raises WireError also when it is not UTF-8."""
        try:
            return self.data().decode()
        except UnicodeDecodeError as error:
            raise WireError(f"a text is not UTF-8: {error}") from error

    def count(self) -> int:
        """The next number of items of a list, 4 bytes. Raises WireError also above ITEMS_MAX."""
        count: int = self.unpack(_SIZE)[0]
        if count > ITEMS_MAX:
            raise WireError(f"a list has {count} items, {ITEMS_MAX} are allowed")
        return count


Out = list[bytes]
"""Pieces of a frame's body, joined when all are there: so the body of a message is copied once."""


@final
class Codec(Generic[T]):
    """The encoding of values of one type.

    put   append the bytes of a value to a list of pieces; a number that its layout cannot hold raises struct.error
    get   take a value from a reader; raises WireError
    """

    def __init__(self, put: Callable[[Out, T], None], get: Callable[[Reader], T]) -> None:
        self.put = put
        self.get = get


def put_data(out: Out, value: bytes) -> None:
    """Append the length of `value`, 4 bytes, and `value`."""
    out.append(_SIZE.pack(len(value)))
    out.append(value)


def put_text(out: Out, value: str) -> None:
    """Append the length of `value` in UTF-8, 4 bytes, and that text."""
    put_data(out, value.encode())


def put_count(out: Out, count: int) -> None:
    """Append the number of items of a list, 4 bytes."""
    out.append(_SIZE.pack(count))


I64: Final[Codec[int]] = Codec(lambda out, value: out.append(_I64.pack(value)), lambda reader: reader.unpack(_I64)[0])
"""8 bytes, signed."""
BOOL: Final[Codec[bool]] = Codec(
    lambda out, value: out.append(b"\x01" if value else b"\x00"), lambda reader: reader.take(1) != b"\x00"
)
"""1 byte: 0 is False, anything else True."""
TEXT: Final = Codec(put_text, Reader.text)
DATA: Final = Codec(put_data, Reader.data)
"""As TEXT: a length of 4 bytes, and as many bytes."""
NOTHING: Final[Codec[None]] = Codec(lambda out, value: None, lambda reader: None)
"""None, in no bytes."""


def listed(item: Codec[T]) -> Codec[list[T]]:
    """Codec of a list: the number of items, 4 bytes and at most ITEMS_MAX, and the items."""

    def put(out: Out, values: Sequence[T]) -> None:
        put_count(out, len(values))
        for value in values:
            item.put(out, value)

    return Codec(put, lambda reader: [item.get(reader) for _ in range(reader.count())])


def optional(item: Codec[T]) -> Codec[T | None]:
    """Codec of a value or None: a BOOL, and the value when that is True."""

    def put(out: Out, value: T | None) -> None:
        BOOL.put(out, value is not None)
        if value is not None:
            item.put(out, value)

    return Codec(put, lambda reader: item.get(reader) if BOOL.get(reader) else None)


def made(fields: tuple[Codec[Any], ...], of: Callable[..., T], parts: Callable[[T], tuple[Any, ...]]) -> Codec[T]:
    """Codec of a value that has fields, written one after the other: `parts` takes it apart, `of` makes it of its fields."""

    def put(out: Out, value: T) -> None:
        for field, part in zip(fields, parts(value), strict=True):
            field.put(out, part)

    return Codec(put, lambda reader: of(*[field.get(reader) for field in fields]))
