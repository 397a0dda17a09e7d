"""Reasons for the refusal of a command or the end of a connection: one closed list for all protocols, counted by name.

A command is refused with an ErrorCode, a connection ends with an Ending; both are reasons. Adapters say their own words for
reasons and declare what they mean (`protocols.declaration`). docs/operations.md says what to do about each reason.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, final

from domain.errors import ErrorCode


class Ending(enum.Enum):
    """Reason for the refusal or the end of a connection. The value is the stable name in metrics."""

    # A connection was not taken.
    CONNECTIONS_MAX = "connections-max"
    ADDRESS_CONNECTIONS = "address-connections"
    UNAUTHENTICATED_CONNECTIONS = "unauthenticated-connections"
    CONNECT_RATE = "connect-rate"
    FLAPPING = "flapping"
    PROXY_REFUSED = "proxy-refused"
    PROXY_MALFORMED = "proxy-malformed"
    PROXY_MISSING = "proxy-missing"
    TLS_HANDSHAKE = "tls-handshake"
    TLS_HANDSHAKES = "tls-handshakes"
    PLAINTEXT = "plaintext"
    UNRECOGNISED = "unrecognised"
    SILENT = "silent"
    HANDSHAKE_DEADLINE = "handshake-deadline"
    WEBSOCKET_REFUSED = "websocket-refused"
    VERSION = "version"
    CLIENT_ID = "client-id"
    AUTHENTICATION_METHOD = "authentication-method"

    # A connection was ended, for what its client did or left undone.
    MALFORMED = "malformed"
    PROTOCOL_ERROR = "protocol-error"
    CUT_SHORT = "cut-short"
    REQUEST_REFUSED = "request-refused"
    FRAME_DEADLINE = "frame-deadline"
    KEEP_ALIVE = "keep-alive"
    RECEIVE_MAXIMUM = "receive-maximum"
    TOPIC_ALIAS = "topic-alias"
    REFUSED_PUBLISH = "refused-publish"
    FLOOD = "flood"
    SLOW_READER = "slow-reader"
    REVOKED = "revoked"
    ADAPTER_FAULT = "adapter-fault"
    DATAGRAM_DROPPED = "datagram-dropped"
    DATAGRAM_FLOOD = "datagram-flood"
    DATAGRAM_NOT_SENT = "datagram-not-sent"

    # A connection has ended as connections do.
    GOODBYE = "goodbye"
    LOST = "lost"
    IDLE = "idle"
    TAKEN_OVER = "taken-over"
    MOVED = "moved"
    SHUTTING_DOWN = "shutting-down"


TLS_ONLY: Final = "this port takes TLS only"
"""Text for a client without TLS, in the frames of its protocol, when its connection ends for PLAINTEXT."""

Reason = ErrorCode | Ending
REASONS: Final[tuple[Reason, ...]] = (*ErrorCode, *Ending)
"""The closed list."""

_ORDINARY: Final = frozenset(
    (
        Ending.GOODBYE,
        Ending.LOST,
        Ending.IDLE,
        Ending.TAKEN_OVER,
        Ending.MOVED,
        Ending.SHUTTING_DOWN,
        Ending.REQUEST_REFUSED,
    )
)

WORDS: Final[Mapping[str, Reason]] = {
    "closed": Ending.GOODBYE,
    "closed-by-node": Ending.SHUTTING_DOWN,
    "reset": Ending.LOST,
    "eof": Ending.GOODBYE,
    "end-of-stream": Ending.GOODBYE,
    "unrecognised-end": Ending.UNRECOGNISED,
    "unrecognised-late": Ending.UNRECOGNISED,
    "handshake-timeout": Ending.HANDSHAKE_DEADLINE,
    "frame-timeout": Ending.FRAME_DEADLINE,
}
"""Words of the gateway itself, and of several protocols, that are not the name of their reason."""


@final
class ReasonWords:
    """Every word that the protocols of a node say for a reason: names of reasons, `WORDS`, and what protocols declare."""

    def __init__(self, declared: Iterable[Mapping[str, Reason | None]] = ()) -> None:
        """`declared`: word -> reason; None: nobody is refused anything. Raises ValueError when a word has two meanings."""
        self.words: dict[str, Reason | None] = dict(WORDS)
        for word, reason in (pair for each in declared for pair in each.items()):
            if self.words.setdefault(word, reason) is not reason:
                raise ValueError(f"the word {word!r} means two reasons")
        self._reasons: dict[str, Reason | None] = {**self.words, **{reason.value: reason for reason in REASONS}}

    def reason_of(self, word: str) -> Reason | None:
        """The reason that a word means; None for a word that nobody has declared."""
        return self._reasons.get(word)

    def refuses(self, word: str) -> bool:
        """False for a word that is said when nobody is refused anything."""
        return self._reasons.get(word, ErrorCode.INTERNAL) is not None


def is_refusal(reason: Reason) -> bool:
    """False for the ends that every connection may come to, and for one whose cause has been counted by itself."""
    return reason not in _ORDINARY
