"""The port by which deliveries leave the process. `gateway/link/sinks` has the real one, tests have simulated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from domain.subscription.subscription import Credential

ANSWER_BYTES_MAX: Final = 64 * 1024
"""An answer is read up to this; what comes behind it is not read, and the connection is closed."""


class Trouble(StrEnum):
    """Reason for a missing answer.

    REFUSED_ADDRESS   the sink's name has an address that sinks may not have, or the URL is not allowed
    NAME              the name cannot be resolved
    CONNECTION        no connection, or it ended before the answer
    TLS               the certificate or the handshake
    TIMEOUT           the deadline has passed
    CREDENTIAL        no token could be got, or the credential is not valid
    """

    REFUSED_ADDRESS = "refused-address"
    NAME = "name"
    CONNECTION = "connection"
    TLS = "tls"
    TIMEOUT = "timeout"
    CREDENTIAL = "credential"


@dataclass(slots=True)
class SinkRequest:
    """One request to a sink.

    method       POST, or OPTIONS for the handshake
    fields       header fields; the credential's are added by the courier
    timeout_ms   from the call to the end of the answer
    credential   bearer, oauth2 and mtls are the courier's work; a signature is in `fields` already
    """

    method: str
    url: str
    fields: Sequence[tuple[str, str]]
    body: bytes
    timeout_ms: int
    credential: Credential | None = field(default=None, repr=False)


@dataclass(slots=True)
class SinkAnswer:
    """The answer of a sink, or why there is none.

    status    status of the answer; 0: there is none, see `trouble`
    fields    header fields, names in lower case
    body      content, at most ANSWER_BYTES_MAX
    trouble   why there is no answer; None: there is one
    text      words for a person, without secrets
    cut       True: there was more content than ANSWER_BYTES_MAX
    """

    status: int
    fields: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    trouble: Trouble | None = None
    text: str = ""
    cut: bool = False


class Courier(Protocol):
    """Sends requests. Follows no redirect, keeps no cookie, connects only to addresses that sinks may have."""

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """Start one request; `done` is called once, in a later turn. Returns what ends it, so that `done` is not called."""
