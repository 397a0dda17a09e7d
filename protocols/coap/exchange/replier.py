"""Responses to requests: piggybacked, separate or non-confirmable, kept for duplicates, small to unverified addresses.

The transmitter sends datagrams: in order, with retransmission (RFC 7252, section 4.2), one confirmable message per peer at a
time (section 4.7).
"""

from __future__ import annotations

import heapq
from typing import Final, final

from domain.ports import Entropy
from protocols.coap import status
from protocols.coap.exchange.echo import Echoes
from protocols.coap.exchange.exchange import (
    ACK_RANDOM_FACTOR,
    ACK_TIMEOUT_NS,
    MAX_RETRANSMIT,
    Exchange,
    Outbound,
    Remote,
    Transmission,
)
from protocols.coap.exchange.message_ids import EMPTY_ACK
from protocols.coap.message import message, option
from protocols.coap.message.message import Pairs
from protocols.coap.observe.observations import Observation, Observations
from protocols.coap.settings import CoapSettings
from protocols.coap.shared_limits import SharedLimits

WAITING_MAX: Final = 2_048
UNSETTLED_MAX: Final = 262_144
RESENT_MAX: Final = 512
"""Heap entries that one call of `expire` handles."""
UDP_PAYLOAD_MAX: Final = 65_507
BLOCK_OVERHEAD: Final = 48


@final
class Transmitter:
    """Datagrams to send now, and confirmable messages that may be retransmitted.

    entropy   randomness of the initial timeout (ACK_RANDOM_FACTOR)
    limited   True: an unverified address gets no more bytes than its credit
    out       (datagram, address) pairs to send, in order
    heap      (due, serial, entry): a Transmission that waits for its ACK, or a Remote without an unused message id.
              An obsolete entry stays until it is due, and is then skipped
    serial    number of the last heap entry; it orders entries of the same due time
    withheld  confirmable messages not sent when due, since the address is unverified and has no credit
    """

    def __init__(self, entropy: Entropy, limited: bool) -> None:
        self.entropy = entropy
        self.limited = limited
        self.out: list[tuple[bytes, tuple[str, int]]] = []
        self.heap: list[tuple[int, int, Transmission | Remote]] = []
        self.serial = 0
        self.resent = 0
        self.withheld = 0

    def send(self, remote: Remote, data: bytes) -> None:
        """Queue one datagram and reduce the credit of the remote. It is not retransmitted."""
        left = remote.credit - len(data)
        remote.credit = left if left > 0 else 0
        self.out.append((data, remote.address))

    def confirm(self, remote: Remote, owner: Outbound, now: int) -> bool:
        """Queue `owner`, unless it is queued, to send its next confirmable message to `remote`.

        False: WAITING_MAX sources wait for this peer, or UNSETTLED_MAX entries are in the heap; `owner` is not queued.
        """
        if owner not in remote.waiting:
            if len(remote.waiting) >= WAITING_MAX or len(self.heap) >= UNSETTLED_MAX:
                return False
            remote.waiting[owner] = None
        if remote.outstanding is None:
            self._next(remote, now)
        return True

    def acknowledged(self, remote: Remote, now: int) -> None:
        """Send the next message to this peer, after the ACK or RST of the outstanding one."""
        remote.outstanding = None
        self._next(remote, now)

    def forget(self, remote: Remote, owner: Outbound, now: int) -> None:
        """Remove `owner` from the queue, and stop the retransmission of its outstanding message."""
        remote.waiting.pop(owner, None)
        if remote.outstanding is not None and remote.outstanding.owner is owner:
            remote.outstanding = None
            self._next(remote, now)

    def drop(self, remote: Remote) -> None:
        """Drop all messages to a remote that has left."""
        remote.waiting.clear()
        remote.outstanding = None

    def deadline(self) -> int | None:
        """Monotonic ns of the earliest heap entry; None without entries."""
        return self.heap[0][0] if self.heap else None

    def expire(self, now: int) -> list[tuple[Remote, Outbound]]:
        """Retransmit due messages. Returns (remote, owner) of those unacknowledged after MAX_RETRANSMIT attempts.

        Handles at most RESENT_MAX entries; `deadline` is then in the past, and the next call continues.
        """
        failed: list[tuple[Remote, Outbound]] = []
        for _ in range(RESENT_MAX):
            if not self.heap or self.heap[0][0] > now:
                break
            what = heapq.heappop(self.heap)[2]
            if isinstance(what, Remote):
                if what.outstanding is None:
                    self._next(what, now)
                continue
            remote = what.remote
            if remote.outstanding is not what:
                continue
            if what.attempts >= MAX_RETRANSMIT:
                remote.outstanding = None
                failed.append((remote, what.owner))
                self._next(remote, now)
                continue
            what.attempts += 1
            what.timeout_ns *= 2
            if self._transmit(what, now):
                self.resent += 1
            self._push(now + what.timeout_ns, what)
        return failed

    def _next(self, remote: Remote, now: int) -> None:
        while remote.waiting:
            mid = remote.next_mid(now)
            if mid < 0:
                self._push(remote.mid_due(), remote)
                return
            owner = next(iter(remote.waiting))
            del remote.waiting[owner]
            data = owner.datagram(mid, now)
            if data is None:
                continue
            timeout_ns = int(ACK_TIMEOUT_NS * (1.0 + (ACK_RANDOM_FACTOR - 1.0) * self.entropy.random()))
            remote.outstanding = Transmission(remote, mid, data, owner, timeout_ns)
            self._transmit(remote.outstanding, now)
            self._push(now + timeout_ns, remote.outstanding)
            return

    def _transmit(self, what: Transmission, now: int) -> bool:
        """Send a confirmable message. False: it was withheld, since the address is unverified and has no credit left."""
        remote = what.remote
        if self.limited and not what.owner.proven and remote.verified_ns <= now and remote.credit < len(what.data):
            self.withheld += 1
            return False
        self.send(remote, what.data)
        return True

    def _push(self, due: int, what: Transmission | Remote) -> None:
        self.serial += 1
        heapq.heappush(self.heap, (due, self.serial, what))


@final
class Replier:
    """Sends the responses of an endpoint.

    amplification, block_bytes   as in the settings
    executing   number of requests without a response so far
    counts      dropped and refused datagrams and requests by reason: malformed, duplicate, challenged, requests, unanswered, …
    recent_con  the duplicate table of confirmable requests, shared by all endpoints of the node
    recent_non  the same for non-confirmable requests
    """

    def __init__(self, config: CoapSettings, entropy: Entropy, shared: SharedLimits) -> None:
        self.amplification = config.amplification
        self.block_bytes = config.block_bytes
        self.counts: dict[str, int] = {}
        self.executing = 0
        self.echoes = Echoes(entropy.token(16))
        self.transmitter = Transmitter(entropy, config.amplification > 0)
        self.recent_con = shared.recent_con
        self.recent_non = shared.recent_non

    @property
    def confirms(self) -> bool:
        """Always True: notifications are confirmable messages."""
        return True

    def enter(self, exchange: Exchange, now: int) -> bool:
        """Add a request to the duplicate table. False: the table is full, and the request was refused (5.03)."""
        if exchange.key >= 0:
            return True
        recent = self.recent_con if exchange.confirmable else self.recent_non
        key = exchange.remote.key | exchange.mid
        if recent.begin(key, exchange.token, now, exchange.remote.network):
            exchange.key = key
            return True
        self.overload(exchange, "duplicate-table", now)
        return False

    def reply(self, exchange: Exchange, code: int, pairs: Pairs, payload: bytes, now: int) -> None:
        """Answer a request. A second answer to the same exchange is ignored."""
        self.emit(exchange, code, exchange.encoded(pairs), payload, now)

    def emit(self, exchange: Exchange, code: int, options: bytes, payload: bytes, now: int) -> None:
        """As `reply`, with encoded options: piggybacked, separate or non-confirmable (RFC 7252 sections 5.2.1 to 5.2.3)."""
        if exchange.settled:
            return
        self._settle(exchange)
        remote = exchange.remote
        if exchange.waives(code):
            if exchange.confirmable and not exchange.acknowledged:
                self.acknowledge(exchange)
            return
        token = exchange.token
        proved = self.proved(remote, now)
        if not proved or exchange.seal is not None:
            room = (UDP_PAYLOAD_MAX if proved else remote.credit) - message.HEADER_BYTES
            found = exchange.response(code, options, payload, room)
            if found is None:
                self.count("oscore-numbers")
                return
            code, options, payload = found
        if exchange.acknowledged:
            exchange.separate = (code, options, payload)
            if not self.transmitter.confirm(remote, exchange, now):
                self.count("unsendable")
            return
        mid = exchange.mid if exchange.confirmable else remote.next_mid(now)
        if mid < 0:
            self.count("no-message-id")
            return
        data = message.encode(message.ACK if exchange.confirmable else message.NON, code, mid, token, options, payload)
        self.transmitter.send(remote, data)
        if exchange.key >= 0 and exchange.confirmable:
            whole = exchange.block1 != option.ABSENT or (len(payload) > 0 and code < message.BAD_REQUEST)
            self.recent_con.settle(exchange.key, code, data if options or payload else b"", whole, remote.network)

    def challenge(self, exchange: Exchange, now: int) -> None:
        """Answer 4.01 with an Echo value; the request that repeats it verifies the address."""
        self.count("challenged")
        self.reply(exchange, message.UNAUTHORIZED, [(option.ECHO, self.echoes.value(exchange.origin, now))], b"", now)

    def room(self, exchange: Exchange, total: int, now: int) -> int:
        """Limit on the bytes of a response that is part of a body of `total` bytes.

        An unverified address may use all its credit if that suffices for the whole body. Otherwise the size of each request
        limits its response, so that credit remains for the later blocks of the body.
        """
        remote = exchange.remote
        if self.proved(remote, now):
            return UDP_PAYLOAD_MAX
        overhead = exchange.overhead
        if remote.credit >= total + (BLOCK_OVERHEAD + overhead) * (1 + total // self.block_bytes):
            return remote.credit - overhead
        return min(remote.credit, exchange.size * self.amplification) - overhead

    def proved(self, remote: Remote, now: int) -> bool:
        """True when the address is verified, or when `amplification` is 0."""
        return remote.verified_ns > now or not self.amplification

    def notify(self, observations: Observations, most: int, now: int) -> int:
        """Queue the next notifications of at most `most` ready observers; returns their number."""
        ready = observations.ready
        done = 0
        while ready and done < most:
            observation = ready.popleft()
            done += 1
            if not observation.cancelled and not self.transmitter.confirm(observation.remote, observation, now):
                self.count("unsendable")
                observations.postpone(observation)
        return done

    def abandon(self, observation: Observation, now: int) -> None:
        """Drop the queued and outstanding notifications of a removed observation."""
        self.transmitter.forget(observation.remote, observation, now)

    def overload(self, exchange: Exchange, why: str, now: int) -> None:
        """Refuse a request for lack of room: 5.03 with Max-Age for a confirmable one, no response for others."""
        self.count(why)
        if exchange.confirmable:
            pairs: Pairs = [(option.MAX_AGE, message.uint(status.RETRY_AFTER_S))]
            self.reply(exchange, message.UNAVAILABLE, pairs, b"", now)
        else:
            self.release(exchange)

    def release(self, exchange: Exchange) -> None:
        """End the exchange without a response."""
        if not exchange.settled:
            self._settle(exchange)

    def begin(self, exchange: Exchange) -> None:
        """Count a request in execution."""
        self.executing += 1
        exchange.remote.executing += 1

    def _settle(self, exchange: Exchange) -> None:
        exchange.settled = True
        self.executing -= 1
        exchange.remote.executing -= 1

    def separate(self, exchange: Exchange) -> None:
        """Make the response a separate confirmable message, also for a NON request: its ACK verifies the address."""
        if exchange.confirmable and not exchange.acknowledged:
            self.acknowledge(exchange)
        exchange.acknowledged = True

    def acknowledge(self, exchange: Exchange) -> None:
        """Send an empty ACK; a separate response follows (section 5.2.2)."""
        exchange.acknowledged = True
        data = message.empty(message.ACK, exchange.mid)
        self.transmitter.send(exchange.remote, data)
        if exchange.key >= 0:
            self.recent_con.settle(exchange.key, EMPTY_ACK, b"", False)

    def count(self, why: str) -> None:
        """Count a dropped or refused datagram or request under a reason."""
        self.counts[why] = self.counts.get(why, 0) + 1
