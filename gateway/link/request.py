"""A request to a server of an Apache RocketMQ cluster, before it has a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from protocols.remoting.wire.frame import encode
from protocols.remoting.wire.header import BINARY, FLAG_ONEWAY, JSON, LANGUAGE_JAVA

CODE_MAX_BINARY: Final = 0x7FFF
"""The code of a binary header has 16 bits. Brokers read higher codes in JSON headers only."""
HEADER_LANGUAGE: Final = LANGUAGE_JAVA

Sign = Callable[[Mapping[str, str], bytes], dict[str, str]]
"""Ext fields and body of a request -> the ext fields with those that prove who sends it."""


@final
class Request:
    """One request.

    fields   ext fields. At least one: brokers fail at requests without any
    """

    __slots__ = ("body", "code", "fields")

    def __init__(self, code: int, fields: Mapping[str, str], body: bytes = b"") -> None:
        self.code = code
        self.fields = fields
        self.body = body

    def encoded(self, opaque: int, sign: Sign | None, oneway: bool = False) -> bytes:
        """The frame with the number `opaque`; `sign` signs it."""
        fields = self.fields if sign is None else sign(self.fields, self.body)
        return encode(
            self.code, opaque, fields=fields, body=self.body, flag=FLAG_ONEWAY if oneway else 0,
            serialize=BINARY if self.code <= CODE_MAX_BINARY else JSON, language=HEADER_LANGUAGE,
        )  # fmt: skip
