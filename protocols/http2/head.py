"""The head of one request on a stream, taken apart once for all applications (RFC 9113, section 8.3.1)."""

from __future__ import annotations

from typing import Final, final

Headers = list[tuple[bytes, bytes]]
"""Header fields in order, names in lower case, pseudo-header fields (`:method`, `:path`, …) first."""

COLON: Final = 0x3A
FIELD_OVERHEAD_BYTES: Final = 4
"""Bytes counted for a field besides its name and value: colon, space and line end of its line in HTTP/1.1."""


@final
class RequestHead:
    """The head of a request, by which the applications judge it.

    method         value of `:method`, b"" without it, as the next four
    protocol       value of `:protocol`, of an extended CONNECT (RFC 8441)
    content_type   value of the first Content-Type
    fields         the fields behind the pseudo-header fields, in order; without a Host that only repeats `:authority`
    size           bytes of all fields, FIELD_OVERHEAD_BYTES for each
    """

    __slots__ = ("authority", "content_type", "fields", "method", "path", "protocol", "size")

    def __init__(self, headers: Headers) -> None:
        """`headers` as an engine has decoded them: it has checked that pseudo-header fields come first."""
        self.method = self.path = self.authority = self.protocol = self.content_type = b""
        size = FIELD_OVERHEAD_BYTES * len(headers)
        pseudo = 0
        repeats = False
        for name, value in headers:
            size += len(name) + len(value)
            if not name or name[0] != COLON:
                if name == b"content-type":
                    self.content_type = self.content_type or value
                elif name == b"host":
                    repeats = repeats or self._is_authority(value)
                continue
            pseudo += 1
            if name == b":method":
                self.method = value
            elif name == b":path":
                self.path = value
            elif name == b":authority":
                self.authority = value
            elif name == b":protocol":
                self.protocol = value
        self.fields: Headers = headers[pseudo:]
        self.size = size
        if repeats:
            self.fields = [field for field in self.fields if field[0] != b"host" or not self._is_authority(field[1])]

    def _is_authority(self, host: bytes) -> bool:
        return self.authority != b"" and host.lower() == self.authority.lower()
