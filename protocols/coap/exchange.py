"""Messages in time (RFC 7252, section 4): one remote address, one request being executed, one confirmable message of ours.

             CON of ours                                   request of theirs
idle --send--> outstanding --ACK--> idle          CON --> executing --answer within 1 s--> piggybacked ACK
                 |  |  `-----RST--> rejected                   `--longer--> empty ACK ... answer as a CON of ours
                 |  `---timeout x 4: sent again    NON --> executing --answer--> NON
                 `------timeout: failed           same message id again --> the same bytes again, nothing executed
"""

from __future__ import annotations

from typing import Final, Protocol, final

from protocols.coap.option import Options

ACK_TIMEOUT_NS: Final = 2_000_000_000
ACK_RANDOM_FACTOR: Final = 1.5
MAX_RETRANSMIT: Final = 4
EXCHANGE_LIFETIME_NS: Final = 247_000_000_000
NON_TIMEOUT_NS: Final = 145_000_000_000
VERIFIED_NS: Final = 600_000_000_000
CREDIT_BYTES_MAX: Final = 16 * 1024 * 1024
STRAY_ACKS_MAX: Final = 3
REPEATED_ACKS: Final = 16
"""An ACK of one of the last messages was doubled on its way; one of any other number is a guess."""
MIDS_PER_LAP: Final = 4_096
LAPS: Final = 16


class Outbound(Protocol):
    """Something of ours that waits for its turn to be sent as a confirmable message (NSTART is 1)."""

    def datagram(self, mid: int, now: int, /) -> bytes | None:
        """The message, made when its turn has come; None when there is nothing left to say."""


@final
class Remote:
    """One address.

    key            the address as a number with 16 bits free below for a message id
    credit         bytes that may still be sent to it before it has proved that it is there
    verified_ns    until then it has; 0 never
    stray          acknowledgements that match nothing: somebody guesses
    outstanding    the one confirmable message of ours that waits for its ACK; `waiting`: what comes after it, in order
    observers      number of its observations
    laps           when each sixteenth of the message ids was last used up, so that none is used twice within 247 s
    """

    __slots__ = (
        "address", "born_host", "credit", "key", "laps", "mid", "observers", "outstanding", "stray", "verified_ns", "waiting",
    )  # fmt: skip

    def __init__(self, address: tuple[str, int], born_host: bytes, mid: int) -> None:
        self.address = address
        self.born_host = born_host
        self.key = int.from_bytes(born_host, "big") << 16
        self.mid = mid
        self.credit = 0
        self.verified_ns = 0
        self.stray = 0
        self.outstanding: Transmission | None = None
        self.waiting: list[Outbound] = []
        self.observers = 0
        self.laps: list[int] = []

    @property
    def idle(self) -> bool:
        """True when nothing would be lost by forgetting it."""
        return self.outstanding is None and not self.waiting and not self.observers

    def next_mid(self, now: int) -> int:
        """A message id for a message of ours, or -1: all of them have been used within the last 247 s (section 4.4)."""
        mid = (self.mid + 1) & 0xFFFF
        if not mid % MIDS_PER_LAP:
            if not self.laps:
                self.laps = [-EXCHANGE_LIFETIME_NS] * LAPS
            lap = mid // MIDS_PER_LAP
            if now < self.laps[lap] + EXCHANGE_LIFETIME_NS:
                return -1
            self.laps[lap - 1] = now
        self.mid = mid
        return mid

    def mid_due(self) -> int:
        """When `next_mid` will have one again after it had none."""
        return self.laps[((self.mid + 1) & 0xFFFF) // MIDS_PER_LAP] + EXCHANGE_LIFETIME_NS


@final
class Transmission:
    """A confirmable message of ours on its way: what, for whom, how often already."""

    __slots__ = ("attempts", "data", "mid", "owner", "remote", "timeout_ns")

    def __init__(self, remote: Remote, mid: int, data: bytes, owner: Outbound, timeout_ns: int) -> None:
        self.remote = remote
        self.mid = mid
        self.data = data
        self.owner = owner
        self.timeout_ns = timeout_ns
        self.attempts = 0


@final
class Exchange:
    """One request being executed: the ticket of its command, and all that is needed to answer it.

    key            its place in the duplicate table, -1 when it is safe to execute twice
    acknowledged   an empty ACK has gone out: the answer travels as a CON of its own
    block1         the Block1 option to be repeated in the answer, ABSENT for none
    size           bytes of its datagram
    path           of the resource; `intent`: what is to be done with the value when the command answers
    """

    __slots__ = (
        "acknowledged", "block1", "code", "confirmable", "intent", "key", "mid", "options", "path", "remote", "separate",
        "settled", "size", "token",
    )  # fmt: skip

    def __init__(self, remote: Remote, confirmable: bool, code: int, mid: int, token: bytes, options: Options) -> None:
        self.remote = remote
        self.confirmable = confirmable
        self.code = code
        self.mid = mid
        self.token = token
        self.options = options
        self.key = -1
        self.acknowledged = False
        self.settled = False
        self.block1 = -1
        self.path = ""
        self.size = 0
        self.intent: object = None
        self.separate: tuple[int, bytes, bytes] | None = None

    def datagram(self, mid: int, _now: int, /) -> bytes | None:
        """The separate response, as a confirmable message (section 5.2.2)."""
        if self.separate is None:
            return None
        code, options, payload = self.separate
        head = bytes((0x40 | len(self.token), code, mid >> 8, mid & 255))
        if payload:
            return b"".join((head, self.token, options, b"\xff", payload))
        return head + self.token + options
