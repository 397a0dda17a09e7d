"""The message layer's state (RFC 7252, section 4): remote addresses, requests in execution, confirmable messages of the server.

             CON of the server                             request of a client
idle --send--> outstanding --ACK--> idle          CON --> executing --answer within 1 s--> piggybacked ACK
                 |  |  `-----RST--> rejected                   `--longer--> empty ACK ... answer as a CON of the server
                 |  `---timeout x 4: sent again    NON --> executing --answer--> NON
                 `------timeout: failed           same message id again --> the same bytes again, nothing executed
"""

from __future__ import annotations

from typing import Final, Protocol, final

from domain.access.access import Credentials
from domain.limits import SECOND_NS
from protocols.coap.exchange.dedup import network_of
from protocols.coap.message.message import CON, Pairs, encode, join, uint
from protocols.coap.message.option import ABSENT, BLOCK1, Options
from protocols.coap.oscore.seal import OVERHEAD, Seal

ACK_TIMEOUT_NS: Final = 2_000_000_000
ACK_RANDOM_FACTOR: Final = 1.5
MAX_RETRANSMIT: Final = 4
EXCHANGE_LIFETIME_NS: Final = 247_000_000_000
VERIFIED_NS: Final = 600_000_000_000
NOTIFIED_NS: Final = 100_000_000
"""Time for which further requests of a peer above its rate are dropped after a 4.29."""
PAID: Final = 0
TOO_FAST: Final = 1
SILENCED: Final = 2
Proof = tuple[Credentials | None, str]
"""(proven credentials of a peer, name in its verified certificate, "" without one)."""
NO_PROOF: Final[Proof] = (None, "")
ALWAYS_NS: Final = 1 << 62
"""`Remote.verified_ns` of a connection or a session: its address is verified to its end."""
CREDIT_BYTES_MAX: Final = 16 * 1024 * 1024
STRAY_ACKS_MAX: Final = 3
REPEATED_ACKS: Final = 16
"""Last message ids for which an ACK may be a duplicate; an ACK for any other message id counts as stray."""
MIDS_PER_LAP: Final = 4_096
LAPS: Final = 16


class Outbound(Protocol):
    """Source of confirmable messages to one remote, sent one at a time (NSTART is 1)."""

    @property
    def proven(self) -> bool:
        """True when the address has acknowledged a message of this source: it is not forged."""

    def datagram(self, mid: int, now: int, /) -> bytes | None:
        """Encode the next message with message id `mid`; None when there is nothing more to send."""


@final
class Remote:
    """One remote address.

    address        (host, port); for a session, its number instead of the port
    born_host      the address in the form that records store
    key            the address as a number whose low 16 bits are free for a message id
    mid            message id of the last message to it
    credit         bytes that may be sent to it while it is unverified
    verified_ns    monotonic ns until which the address counts as verified; 0: unverified
    stray          ACK and RST messages that match no message to it, possibly guessed
    outstanding    the confirmable message that waits for its ACK, None: none
    waiting        sources of the next confirmable messages, in order
    network        its network (`network_of`): limits of a network count all its ports and hosts
    laps           monotonic ns at which each sixteenth of the message ids was used up: none is reused within 247 s
    paid_ns        monotonic ns up to which its requests have used up its rate; an odd number: end of its silence
    whole_bytes    largest payload of one message of a stream; 0: payloads above `block_bytes` are sent in blocks
    bert           True: both ends of a stream send several blocks in one message (RFC 8323, section 6)
    """

    __slots__ = (
        "address", "bert", "born_host", "credit", "executing", "key", "laps", "mid", "network",
        "observers", "outstanding", "paid_ns", "proof", "stray", "verified_ns", "waiting", "whole_bytes",
    )  # fmt: skip

    def __init__(self, address: tuple[str, int], born_host: bytes, mid: int) -> None:
        self.address = address
        self.born_host = born_host
        self.key = int.from_bytes(born_host, "big") << 16
        self.network = network_of(self.key)
        self.executing = 0
        self.mid = mid
        self.credit = 0
        self.verified_ns = 0
        self.stray = 0
        self.outstanding: Transmission | None = None
        self.waiting: dict[Outbound, None] = {}
        self.observers = 0
        self.laps: list[int] = []
        self.paid_ns = -SECOND_NS
        self.proof = NO_PROOF
        self.whole_bytes = 0
        self.bert = False

    def name(self, source: bytes) -> None:
        """Derive the key from `source` instead of the address."""
        self.key = int.from_bytes(source, "big") << 16

    def pay(self, period_ns: int, now: int) -> int:
        """Charge one request to the rate, a token bucket that holds the requests of one second.

        Returns PAID; above the rate TOO_FAST once, then SILENCED for NOTIFIED_NS.
        """
        paid_ns = self.paid_ns
        if paid_ns & 1:
            if paid_ns > now:
                return SILENCED
            paid_ns -= NOTIFIED_NS + 1
        paid_ns = max(paid_ns, now - SECOND_NS) + period_ns
        if paid_ns > now:
            self.paid_ns = (now + NOTIFIED_NS) | 1
            return TOO_FAST
        self.paid_ns = paid_ns & ~1
        return PAID

    def answered(self, mid: int, acknowledged: bool, now: int) -> Outbound | None:
        """Source of the outstanding message with this id, after its ACK (`acknowledged`) or RST; None for a stray one.

        An ACK verifies the address, unless STRAY_ACKS_MAX stray messages have come from it.
        """
        outstanding = self.outstanding
        if outstanding is None or outstanding.mid != mid:
            if (self.mid - mid) & 0xFFFF >= REPEATED_ACKS:
                self.stray += 1
            return None
        if acknowledged and self.stray < STRAY_ACKS_MAX:
            self.verified_ns = now + VERIFIED_NS
        return outstanding.owner

    @property
    def idle(self) -> bool:
        """True when the remote may be forgotten: no outstanding or waiting message, no observation, no request."""
        return self.outstanding is None and not self.waiting and not self.observers and not self.executing

    def next_mid(self, now: int) -> int:
        """Next unused message id, or -1 when all have been used within the last 247 s (section 4.4)."""
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
        """Monotonic ns at which the next message id becomes free, after `next_mid` has returned -1."""
        return self.laps[((self.mid + 1) & 0xFFFF) // MIDS_PER_LAP] + EXCHANGE_LIFETIME_NS


@final
class Transmission:
    """A confirmable message that waits for its ACK.

    timeout_ns   time until the next retransmission; each one doubles it
    attempts     retransmissions so far
    """

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
    """One request in execution, and the ticket of its command.

    confirmable    True: a CON, False: a NON
    key            key in the duplicate table; -1 for a request that may be executed twice
    acknowledged   an empty ACK was sent: the response is a separate confirmable message
    separate       encoded separate response, kept until it is sent
    settled        the request was answered, or ended without an answer
    block1         Block1 option that the response repeats; ABSENT for none
    size           bytes of its datagram
    path           the MQTT topic of the resource
    intent         state for the event of the command: an Observation, a Condition, a Lease, …, or None
    seal           protection of its responses (OSCORE); None: the request was not protected
    """

    __slots__ = (
        "acknowledged", "block1", "code", "confirmable", "intent", "key", "mid", "options", "path", "remote", "seal",
        "separate", "settled", "size", "token",
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
        self.block1 = ABSENT
        self.path = ""
        self.size = 0
        self.intent: object = None
        self.seal: Seal | None = None
        self.separate: tuple[int, bytes, bytes] | None = None

    @property
    def proven(self) -> bool:
        """Always False: a request has no proof besides that of the address (`Remote.verified_ns`)."""
        return False

    def protect(self, seal: Seal, code: int, options: Options) -> None:
        """Become the inner request of a protected one: its method, its options, and the protection of its responses."""
        self.seal = seal
        self.code = code
        self.options = options

    @property
    def overhead(self) -> int:
        """Bytes that protection adds to a response, at most."""
        return 0 if self.seal is None else OVERHEAD

    @property
    def proof(self) -> Proof:
        """Proof of the request: of its security context, else of its session."""
        return self.remote.proof if self.seal is None else (self.seal.association.proof, "")

    @property
    def owner(self) -> tuple[int, bytes]:
        """Owner of the request's unfinished bodies and pinned values: the address with the security context."""
        return self.remote.key, b"" if self.seal is None else self.seal.association.name

    @property
    def origin(self) -> bytes:
        """Origin that has to send an Echo value back: the address with the security context."""
        return self.remote.born_host if self.seal is None else self.remote.born_host + self.seal.association.name

    @property
    def observer(self) -> bytes:
        """Name of its observation among those of the peer: the token with the security context."""
        return self.token if self.seal is None else self.seal.association.name + self.token

    def waives(self, code: int) -> bool:
        """True when No-Response names the class of this response code (RFC 7967): no response is sent."""
        return self.options.no_response > 0 and self.options.no_response >> (code >> 5) - 1 & 1 > 0

    def response(self, code: int, options: bytes, payload: bytes, room: int) -> tuple[int, bytes, bytes] | None:
        """Code, options and payload of a response as sent: cut to the room, and protected like the request.

        A diagnostic payload is cut; content already has blocks that fit. None: no sequence number is left for the protection.
        room   limit on the bytes of token, options and payload
        """
        room -= len(self.token) + len(options) + self.overhead
        if payload and len(payload) >= room:
            payload = payload[: max(0, room - 1)].decode("utf-8", "ignore").encode()
        if room < 0:
            options = b""
        return (code, options, payload) if self.seal is None else self.seal.response(code, options, payload)

    def encoded(self, pairs: Pairs) -> bytes:
        """Encoded options of a response: `pairs`, and the Block1 option that it repeats."""
        if self.block1 != ABSENT:
            pairs = [*pairs, (BLOCK1, uint(self.block1))]
        return join(pairs) if pairs else b""

    def datagram(self, mid: int, _now: int, /) -> bytes | None:
        """The separate response, as a confirmable message (section 5.2.2)."""
        if self.separate is None:
            return None
        code, options, payload = self.separate
        return encode(CON, code, mid, self.token, options, payload)
