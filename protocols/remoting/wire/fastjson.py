"""The JSON dialect of RocketMQ bodies, as Java's fastjson writes it.

Reading accepts, beyond RFC 8259, unquoted keys, objects as keys, single quotes and trailing commas. Writing is strict JSON,
except that a map whose keys are message queues has JSON objects as keys.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar

import orjson

DEPTH_MAX: Final = 32
"""Nested objects and lists of one text."""
BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes of one text: as many as `orjson` reads in some 10 ms."""
VALUES_MAX: Final = 131_072
"""Commas and opening brackets of one text. An empty list takes 3 bytes of text and 56 bytes of memory."""
OBJECT_KEYS_MAX: Final = 16_384
"""The same in a text that is no JSON: its keys that are objects are made strings, one by one."""
READER_VALUES_MAX: Final = 2_048
"""Values and escapes of a text that is no JSON even then: it is read piece by piece, some 15 calls for each."""

ANSWER_BYTES_MAX: Final = 15 * 1024 * 1024
"""Bytes of one list in an answer: clients of RocketMQ close the connection for a frame of more than 16 MiB."""
BATCH: Final = 64
"""Elements of a list that are encoded between two turns of the loop."""

Value = TypeVar("Value")
Pieces = Generator[None, None, list[bytes]]

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,40})?([eE][+-]?\d{1,3})?")
_BARE = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_PLAIN = re.compile(r"[^\"'\\]*")
_OBJECT_KEY = re.compile(r"([{,]\s*)(\{[^{}]*\})(?=\s*:)")
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_ESCAPES: Final[dict[str, str]] = {
    '"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
}  # fmt: skip


class LongAnswerError(Exception):
    """An answer that is longer than the frames that clients take."""


class DialectError(ValueError):
    """The text is not valid in this dialect."""


def loads(data: bytes) -> object:
    """JSON text -> dict, list, str, int, float, bool or None. A key that is an object becomes its JSON text.

    Raises DialectError for other text, for text that is not UTF-8, and beyond DEPTH_MAX, BYTES_MAX, VALUES_MAX and the bounds
    of texts that are no JSON.
    """
    if len(data) > BYTES_MAX:
        raise DialectError(f"{len(data)} bytes, {BYTES_MAX} are allowed")
    values = data.count(b",") + data.count(b"{") + data.count(b"[")
    if values > VALUES_MAX:
        raise DialectError(f"more than {VALUES_MAX} values")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DialectError("not UTF-8") from error
    if values > OBJECT_KEYS_MAX:
        raise DialectError(f"more than {OBJECT_KEYS_MAX} values, and not JSON")
    try:
        return orjson.loads(_OBJECT_KEY.sub(_quoted, text))
    except orjson.JSONDecodeError:
        pass
    if values > READER_VALUES_MAX:
        raise DialectError(f"more than {READER_VALUES_MAX} values, and not JSON")
    reader = _Reader(text)
    value = reader.value(0)
    if reader.peek() != "":
        raise DialectError("something follows the value")
    return value


def _quoted(key: re.Match[str]) -> str:
    return key[1] + orjson.dumps(key[2]).decode()


def dumps(value: object) -> bytes:
    """Encode a value as strict JSON without blanks, keys in ASCII order. Integer keys are quoted."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS)


def queue(broker: str, topic: str, queue_id: int) -> dict[str, object]:
    """A MessageQueue bean."""
    return {"brokerName": broker, "queueId": queue_id, "topic": topic}


def data_version(timestamp_ms: int = 0, counter: int = 0, state: int = 0) -> dict[str, int]:
    """A DataVersion bean."""
    return {"counter": counter, "stateVersion": state, "timestamp": timestamp_ms}


def keyed(pairs: Iterable[tuple[Mapping[str, object], object]]) -> bytes:
    """Encode a map whose keys are objects: `{{"brokerName":…}:{…},…}`."""
    return b"{" + b",".join(dumps(key) + b":" + dumps(value) for key, value in pairs) + b"}"


def rows(values: Iterable[object]) -> Pieces:
    """Encode the elements of a list over several turns of the loop.

    Returns the text without its brackets, in pieces. Raises LongAnswerError beyond ANSWER_BYTES_MAX.
    """
    return _pieces(dumps(list(some))[1:-1] for some in _batches(values))


def listing(name: bytes, values: Iterable[object]) -> Generator[None, None, bytes]:
    """Encode an object with a list as its only member, over several turns: as `rows`."""
    pieces = yield from rows(values)
    return b"".join((b'{"%b":[' % name, *pieces, b"]}"))


def members(pairs: Iterable[tuple[str, object]]) -> Pieces:
    """Encode the members of an object, without its braces, in pieces: as `rows`."""
    return _pieces(dumps(dict(some))[1:-1] for some in _batches(pairs))


def keyed_members(pairs: Iterable[tuple[Mapping[str, object], object]]) -> Pieces:
    """Encode the members of a map whose keys are objects, without its braces, in pieces: as `rows`."""
    return _pieces(keyed(some)[1:-1] for some in _batches(pairs))


def _batches(values: Iterable[Value]) -> Iterator[list[Value]]:
    each = iter(values)
    while some := list(islice(each, BATCH)):
        yield some


def _pieces(texts: Iterable[bytes]) -> Pieces:
    """The texts with commas between them."""
    pieces: list[bytes] = []
    size = 0
    for text in texts:
        size += len(text) + 1
        if size > ANSWER_BYTES_MAX:
            raise LongAnswerError
        if pieces:
            pieces.append(b",")
            yield
        pieces.append(text)
    return pieces


class _Reader:
    """A recursive-descent reader of at most READER_VALUES_MAX values and escapes, at most DEPTH_MAX levels deep."""

    __slots__ = ("_at", "_left", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._left = READER_VALUES_MAX

    def peek(self) -> str:
        """The next non-blank character, "" at the end. Blanks before it are skipped."""
        space = _SPACE.match(self._text, self._at)
        if space is not None:
            self._at = space.end()
        return self._text[self._at : self._at + 1]

    def value(self, depth: int) -> object:
        """Read a value of any type at nesting level `depth`. Raises DialectError."""
        if depth > DEPTH_MAX:
            raise DialectError("nested too deep")
        self._spend()
        sign = self.peek()
        if sign == "{":
            return self._object(depth)
        if sign == "[":
            return self._array(depth)
        if sign in ('"', "'") and sign:
            return self._string(sign)
        number = _NUMBER.match(self._text, self._at)
        if number is not None:
            self._at = number.end()
            found = number.group()
            return float(found) if number.group(1) or number.group(2) else int(found)
        word = _BARE.match(self._text, self._at)
        if word is not None and word.group() in _WORDS:
            self._at = word.end()
            return _WORDS[word.group()]
        raise DialectError(f"no value at {self._at}")

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise DialectError(f"more than {READER_VALUES_MAX} values and escapes, and not JSON")

    def _object(self, depth: int) -> dict[str, object]:
        self._at += 1
        out: dict[str, object] = {}
        while True:
            sign = self.peek()
            if sign == "}":
                self._at += 1
                return out
            key = self._key(sign, depth)
            if self.peek() != ":":
                raise DialectError(f"no colon at {self._at}")
            self._at += 1
            out[key] = self.value(depth + 1)
            self._comma("}")

    def _key(self, sign: str, depth: int) -> str:
        if sign in ('"', "'") and sign:
            return self._string(sign)
        if sign in ("{", "["):
            start = self._at
            self.value(depth + 1)
            return self._text[start : self._at]
        found = _NUMBER.match(self._text, self._at) or _BARE.match(self._text, self._at)
        if found is None:
            raise DialectError(f"no key at {self._at}")
        self._at = found.end()
        return found.group()

    def _array(self, depth: int) -> list[object]:
        self._at += 1
        out: list[object] = []
        while True:
            if self.peek() == "]":
                self._at += 1
                return out
            out.append(self.value(depth + 1))
            self._comma("]")

    def _comma(self, end: str) -> None:
        sign = self.peek()
        if sign == ",":
            self._at += 1
        elif sign != end:
            raise DialectError(f"no comma at {self._at}")

    def _string(self, quote: str) -> str:
        self._at += 1
        out: list[str] = []
        while True:
            plain = _PLAIN.match(self._text, self._at)
            if plain is not None:
                out.append(plain.group())
                self._at = plain.end()
            sign = self._text[self._at : self._at + 1]
            self._at += 1
            if sign == "":
                raise DialectError("a string without an end")
            if sign == quote:
                return "".join(out)
            if sign != "\\":
                out.append(sign)
                continue
            out.append(self._escape())

    def _escape(self) -> str:
        self._spend()
        sign = self._text[self._at : self._at + 1]
        self._at += 1
        if sign == "u":
            digits = self._text[self._at : self._at + 4]
            if len(digits) != 4 or any(each not in "0123456789abcdefABCDEF" for each in digits):
                raise DialectError(f"a bad escape at {self._at}")
            self._at += 4
            unit = int(digits, 16)
            return "\ufffd" if 0xD800 <= unit < 0xE000 else chr(unit)
        if sign not in _ESCAPES:
            raise DialectError(f"a bad escape at {self._at}")
        return _ESCAPES[sign]
