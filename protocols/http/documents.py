"""Encoded documents of messages that many readers get at the same time."""

from __future__ import annotations

from typing import Final, final

import orjson

from domain.message.record import Record
from protocols.http.translate_out import document

KEPT_MAX: Final = 512
"""Documents that are kept; with more, all are dropped."""
KEPT_BYTES_MAX: Final = 4 * 1024
"""A record above this size is encoded for each reader."""


@final
class Documents:
    """Encodes records; small ones once for all readers, for as long as they are new.

    The readers of a live topic hold the same bytes object, whose hash is computed once.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[bytes, bool], bytes] = {}

    def encode(self, data: bytes, as_text: bool) -> bytes:
        """The document of one record, as `translate_out.document` has it."""
        if len(data) > KEPT_BYTES_MAX:
            return orjson.dumps(document(Record(data), as_text)[0])
        found = self._kept.get((data, as_text))
        if found is None:
            found = orjson.dumps(document(Record(data), as_text)[0])
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept[data, as_text] = found
        return found
