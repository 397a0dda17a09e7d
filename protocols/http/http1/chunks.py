"""Chunked content (RFC 9112, section 7.1): sizes are checked when their line arrives, before any byte of the chunk."""

from __future__ import annotations

import re
from typing import Final, final

from protocols.http.problem import RefusalError, content_too_large, head_too_large, problem

FRAMING_BYTES_MAX: Final = 64 * 1024
FRAMING_PER_BYTE_MAX: Final = 8
TRAILER_BYTES_MAX: Final = 16 * 1024
CHUNKS_PER_CALL_MAX: Final = 1_024
"""Chunks that one call decodes, so that a peer with chunks of one byte does not hold the loop."""

_SIZE: Final = 0
_DATA: Final = 1
_DATA_END: Final = 2
_TRAILER: Final = 3
_OVER: Final = 4

_DIGITS = re.compile(rb"[0-9A-Fa-f]*+")
_SIZE_LINE = re.compile(rb"[0-9A-Fa-f]{1,16}(?:[ \t]*+;[\t -~\x80-\xff]*+)?+\r\n")
_SIZE_LINE_PART = re.compile(rb"[0-9A-Fa-f]{1,16}(?:[ \t]*+(?:;[\t -~\x80-\xff]*+)?+)?+\r?+")
_TRAILER_LINE = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[\t -~\x80-\xff]*+\r\n")


@final
class ChunkReader:
    """Decodes the chunks and the trailer of one request; the trailer is discarded.

    _left       bytes of the current chunk that have not arrived
    _line       part of a size line or trailer line, or of the CRLF after a chunk
    _framing    bytes so far that are not content
    """

    __slots__ = ("_content_max", "_framing", "_left", "_line", "_state", "_trailer", "over", "size")

    def __init__(self, content_max: int) -> None:
        self._content_max = content_max
        self._state = _SIZE
        self._left = 0
        self._line = b""
        self._framing = 0
        self._trailer = 0
        self.over = False
        self.size = 0

    def take(self, data: bytes, at: int, pieces: list[bytes]) -> int:
        """Decode `data` from `at` on, append its content to `pieces`, and return the position of the first byte not taken.

        That is after the content, or after CHUNKS_PER_CALL_MAX chunks. Raises RefusalError: 400 for other bytes than chunks and
        for more framing than content, 413 for a chunk that the limit has no room for, 431 for a long trailer.
        """
        chunks = 0
        while at < len(data) and not self.over and chunks < CHUNKS_PER_CALL_MAX:
            if self._state == _DATA:
                end = min(len(data), at + self._left)
                pieces.append(data[at:end])
                self.size += end - at
                self._left -= end - at
                at = end
                if self._left == 0:
                    self._state = _DATA_END
                continue
            end = data.find(b"\n", at) + 1
            whole = end > 0
            if not whole:
                end = len(data)
            self._line += data[at:end]
            self._framing += end - at
            at = end
            if self._framing > FRAMING_BYTES_MAX + self.size * FRAMING_PER_BYTE_MAX:
                raise _malformed("there is more chunk framing than content")
            if whole:
                chunks += 1
                self._line_over()
            else:
                self._check_part()
        return at

    def _line_over(self) -> None:
        line, self._line = self._line, b""
        if self._state == _SIZE:
            if _SIZE_LINE.fullmatch(line) is None:
                raise _malformed("a chunk begins with its size in hexadecimal digits")
            self._left = self._size_of(line)
            self._state = _DATA if self._left else _TRAILER
        elif self._state == _DATA_END:
            if line != b"\r\n":
                raise _malformed("a chunk ends with CRLF")
            self._state = _SIZE
        elif line == b"\r\n":
            self._state = _OVER
            self.over = True
        else:
            self._trailer += len(line)
            self._check_trailer(self._trailer)
            if _TRAILER_LINE.fullmatch(line) is None:
                raise _malformed("a trailer has fields only")

    def _check_part(self) -> None:
        """Refuse a line that cannot become legal before its end has come."""
        line = self._line
        if self._state == _SIZE:
            if _SIZE_LINE_PART.fullmatch(line) is None:
                raise _malformed("a chunk begins with its size in hexadecimal digits")
            self._size_of(line)
        elif self._state == _DATA_END:
            if line != b"\r":
                raise _malformed("a chunk ends with CRLF")
        else:
            self._check_trailer(self._trailer + len(line))

    def _size_of(self, line: bytes) -> int:
        digits = _DIGITS.match(line)
        size = int(digits.group(), 16) if digits is not None else 0
        if size > self._content_max - self.size:
            raise RefusalError(content_too_large(self._content_max))
        return size

    def _check_trailer(self, size: int) -> None:
        if size > TRAILER_BYTES_MAX:
            raise RefusalError(head_too_large("a trailer", TRAILER_BYTES_MAX))


def _malformed(detail: str) -> RefusalError:
    return RefusalError(problem(400, "request-syntax", detail))
