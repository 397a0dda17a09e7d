"""Cache of decoded options by their bytes: peers repeat the same options, and decoding is most of the work."""

from __future__ import annotations

from typing import Final, final

from protocols.coap.message import option
from protocols.coap.message.message import Pairs
from protocols.coap.message.option import Options

KNOWN_OPTIONS_MAX: Final = 8_192
KNOWN_OPTION_BYTES_MAX: Final = 512


@final
class KnownOptions:
    """The decoded options of recent requests, by their encoded form."""

    __slots__ = ("by_bytes",)

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, Options] = {}

    def decode(self, pairs: Pairs, raw: bytes) -> Options:
        """Decode options, and cache them for the next request with the same bytes."""
        options = option.read(pairs, raw)
        if options.plain and len(raw) <= KNOWN_OPTION_BYTES_MAX:
            if len(self.by_bytes) >= KNOWN_OPTIONS_MAX:
                self.by_bytes.clear()
            self.by_bytes[raw] = options
        return options
