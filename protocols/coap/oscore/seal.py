"""Protection of the responses to one protected request (RFC 8613, sections 8.3 and 4.1.3.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from protocols.coap.message import message
from protocols.coap.message.message import Pairs
from protocols.coap.message.option import OBSERVE, OSCORE
from protocols.coap.oscore import cose
from protocols.coap.oscore.association import AHEAD, Association

OVERHEAD: Final = 32
"""Bytes that protection adds to a response, at most: code, marker, tag, and the OSCORE option."""


@final
class Seal:
    """Protection of the responses and notifications to one request."""

    def __init__(self, association: Association, piv: bytes, outer_code: int, reserve: Callable[[Association], None]) -> None:
        """Create the protection for a request.

        piv          Partial IV of the request
        outer_code   POST or FETCH
        reserve      called when fewer than AHEAD numbers are left
        """
        self.association = association
        self._piv = piv
        self._code = message.CONTENT if outer_code == message.FETCH else message.CHANGED
        self._reserve = reserve
        self._reusable = True

    def forbid_reuse(self) -> None:
        """Do not use the nonce of the request for a response, since the request may be a replay."""
        self._reusable = False

    def response(self, code: int, options: bytes, payload: bytes) -> tuple[int, bytes, bytes] | None:
        """Code, options and payload of a response -> those of the protected one. None: no number is left for its nonce.

        A response with Observe uses a sequence number if one is left. Any other response uses the nonce of the request, once.
        """
        outer: Pairs = []
        if options:
            options, outer = _without_observe(options)
        piv = b""
        if outer or not self._reusable:
            number = self._number()
            if number >= 0:
                piv = cose.partial_iv(number)
            elif not self._reusable:
                return None
        if not piv:
            self._reusable = False
        plain = bytes((code,)) + options + (b"\xff" + payload if payload else b"")
        outer.append((OSCORE, cose.option(piv)))
        return self._code, message.join(outer), self.association.keys.seal(self._piv, piv, plain)

    def notification(self, code: int, options: bytes, payload: bytes) -> tuple[int, bytes, bytes] | None:
        """Seal a notification: as `response`, with a sequence number. An error ends the observation and has no Observe."""
        self._reusable = False
        return self.response(code, options, payload)

    def _number(self) -> int:
        number = self.association.number()
        if self.association.left < AHEAD:
            self._reserve(self.association)
        return number


def _without_observe(options: bytes) -> tuple[bytes, Pairs]:
    """Encoded options -> (inner options, outer Observe option). The inner Observe is empty (section 4.1.3.5.2)."""
    found = message.split(options, 0)
    assert found is not None
    pairs = found[0]
    outer = [pair for pair in pairs if pair[0] == OBSERVE]
    if not outer:
        return options, outer
    return message.join([(number, b"" if number == OBSERVE else value) for number, value in pairs]), outer
