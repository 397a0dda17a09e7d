"""The access key that signs what this node asks of other servers, read from its place while the node runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, final

from domain.limits import SECOND_NS
from domain.ports import Clock
from gateway.client.answer import KeyPlaceError
from gateway.client.security import AccessKey, KeyPlace

KEPT_NS: Final = SECOND_NS
"""Time after which the place is read again: a key that is changed there is used from then on."""

log = logging.getLogger("headgate.node")


@final
class KeptKey:
    """Signs requests. A place that cannot be read any more costs a line in the log; the key that was there last goes on."""

    def __init__(self, place: KeyPlace, clock: Clock) -> None:
        """Read the key. Raises KeyPlaceError."""
        self._place = place
        self._clock = clock
        self._key: AccessKey = place.read()
        self._read_ns = clock.monotonic_ns()
        self._is_readable = True

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """The ext fields of a request with those of its signature (`AccessKey.signed`)."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._read_ns >= KEPT_NS:
            self._read_ns = now_ns
            self._read()
        return self._key.signed(fields, body)

    def _read(self) -> None:
        try:
            self._key = self._place.read()
            self._is_readable = True
        except KeyPlaceError as error:
            if self._is_readable:
                log.warning("%s; the key that was there before is used", error)
            self._is_readable = False
