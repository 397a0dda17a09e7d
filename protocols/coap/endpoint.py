"""The endpoint: datagrams to requests, the duplicate table, requests in execution, and messages that the server sends."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, final

from domain.access.principal import GATEWAY
from domain.command import Command, QueryLatest
from domain.event import Event
from domain.limits import MILLISECOND_NS, SECOND_NS
from protocols.adapter import Peer
from protocols.coap.blockwise import upload
from protocols.coap.exchange.exchange import (
    CREDIT_BYTES_MAX,
    PAID,
    TOO_FAST,
    VERIFIED_NS,
    Exchange,
    Remote,
)
from protocols.coap.exchange.message_ids import EXECUTING
from protocols.coap.exchange.remotes import Remotes
from protocols.coap.exchange.replier import Replier
from protocols.coap.message import message
from protocols.coap.message.option import Fault, KnownOptions
from protocols.coap.observe.observations import Observation, Observations
from protocols.coap.oscore.association import Associations
from protocols.coap.oscore.guard import Guard
from protocols.coap.resources.resource import Resources
from protocols.coap.responder import Check
from protocols.coap.responses import Responses
from protocols.coap.rights import Rights
from protocols.coap.settings import CoapSettings
from protocols.coap.shared_limits import shared_limits_of
from protocols.setting import Setting

SWEEP_NS: Final = 10_000_000_000
SWEPT_ON_NS: Final = 20 * MILLISECOND_NS
"""Time until the next slice of an unfinished sweep."""
NOTIFIED_MAX: Final = 256
"""Observers notified per turn of the loop."""


@final
class CoapEndpoint:
    """One bound socket and all its peers.

    period_ns      ns of a peer's rate that one request uses up; 0: no rate limit
    ack_delay_ns   time after which a confirmable request gets an empty ACK
    shared         state of all transports: duplicate tables, unfinished bodies, pinned values, observers
    awaiting_ack   (monotonic ns of its empty ACK, confirmable request), in order of arrival
    notified       observers notified in this turn of the loop
    sweep_ns       monotonic ns of the next removal of old entries
    """

    def __init__(self, setting: Setting, config: CoapSettings, now: int) -> None:
        self.amplification = config.amplification
        self.datagram_bytes_max = config.datagram_bytes_max
        self.requests_max = config.requests_max
        self.requests_peer_max = config.requests_peer_max
        self.rights = Rights(setting.authority)
        self.ack_delay_ns = config.ack_delay_ms * MILLISECOND_NS
        self.period_ns = SECOND_NS // config.requests_peer_per_s if config.requests_peer_per_s else 0
        self.known = KnownOptions()
        self.remotes = Remotes(config.peers_max, setting.entropy, now)
        self.shared = shared_limits_of(setting, config)
        self.assemblies = self.shared.assemblies
        self.observations = Observations(config, self.shared.pinned, setting.wall_ms, self.shared.audience)
        self.replier = Replier(config, setting.entropy, self.shared)
        self.transmitter = self.replier.transmitter
        self.outcomes = Responses(config, self.replier, self.observations, self.shared.pinned, setting.wall_ms)
        self.resources = Resources(self.replier, self.outcomes, self.rights.identity)
        self.guard = Guard(Associations.of(setting), self.outcomes, self.known)
        self.notified = 0
        self.awaiting_ack: deque[tuple[int, Exchange]] = deque()
        self.sweep_ns = now + SWEEP_NS

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        """Decode one datagram and return its commands. Never raises for input of a peer."""
        size = len(data)
        if size < 4 or data[0] >> 6 != 1 or not peer.port:
            self.replier.count("malformed")
            return ()
        remote = self.remotes.young.get(peer.source or peer.born_host)
        if remote is None:
            remote = self.remotes.add(peer, now)
        remote.credit = min(remote.credit + size * self.amplification, CREDIT_BYTES_MAX)
        kind = data[0] >> 4 & 3
        code = data[1]
        if kind >= message.ACK or not 0 < code < 32:
            return self._not_request(data, remote, kind, code, now)
        mid = data[2] << 8 | data[3]
        recent = self.replier.recent_con if kind == message.CON else self.replier.recent_non
        start = 4 + (data[0] & 15)
        if start > 12 or start > size:
            return self._format_error(remote, kind, mid)
        code_before = recent.code_of(remote.key | mid, now)
        if code_before >= 0:
            self.replier.count("duplicate")
            if kind == message.CON and code_before != EXECUTING:  # the same response again (section 4.5), if it is kept
                answer = recent.answer(remote.key | mid, data[4:start])
                if answer and (remote.credit >= len(answer) or self.replier.proved(remote, now)):
                    self.transmitter.send(remote, answer)
            return ()
        marker = data.find(b"\xff", start)
        options = self.known.by_bytes.get(data[start:marker] if marker >= 0 else data[start:])
        if options is None:
            found = message.split(data, start)
            if found is None:
                return self._format_error(remote, kind, mid)
            pairs, end = found
            marker = end if end < size else -1
            options = self.known.decode(pairs, data[start:end])
        if marker == size - 1:
            return self._format_error(remote, kind, mid)
        exchange = Exchange(remote, kind == message.CON, code, mid, data[4:start], options)
        exchange.size = size
        self.replier.begin(exchange)
        commands = self._request(exchange, data[marker + 1 :] if marker >= 0 else b"", now)
        if self.rights.authority is not None:
            self.rights.give(commands, remote, exchange.proof)
        return commands

    def forget(self, peer: Peer, now: int) -> Sequence[Command]:
        """End the observations of a peer whose session has ended, and drop the messages that wait for it."""
        remote = self.remotes.remove(peer)
        if remote is None:
            return ()
        outstanding = remote.outstanding
        self.transmitter.drop(remote)
        commands = self.outcomes.cancel_all(remote, now)
        if outstanding is not None and isinstance(outstanding.owner, Exchange):
            self.outcomes.undelivered(outstanding.owner, now)
        self.assemblies.leave(remote.key)
        for command in commands:
            command.principal = GATEWAY
        return commands

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of dropped and refused datagrams and requests by reason: malformed, format-error, duplicate, stray, 4.02, …"""
        return self.replier.counts

    def answer(self, event: Event, now: int) -> None:
        """Send the response or the notification for an event. Ignores events whose ticket is not of this endpoint."""
        self.resources.answered(event, now)
        if self.observations.ready:
            self._notify(now)

    def _notify(self, now: int) -> None:
        """Notify at most NOTIFIED_MAX observers per turn of the loop; `expire` continues in the next turn."""
        if self.notified < NOTIFIED_MAX:
            self.notified += self.replier.notify(self.observations, NOTIFIED_MAX - self.notified, now)

    def outgoing(self) -> Sequence[tuple[bytes, tuple[str, int]]]:
        """Take the (datagram, address) pairs to send, in order."""
        self.notified = 0
        out = self.transmitter.out
        if out:
            self.transmitter.out = []
        return out

    def deadline(self) -> int | None:
        """Monotonic ns of the next empty ACK, retransmission or sweep; None: never; 0: commands or notifications wait."""
        if self.outcomes.later or self.observations.ready:
            return 0
        waiting = self.awaiting_ack
        while waiting and waiting[0][1].settled:
            waiting.popleft()
        due = self.transmitter.deadline()
        if waiting and (due is None or waiting[0][0] < due):
            due = waiting[0][0]
        if due is None or self.sweep_ns < due:
            replier, shared = self.replier, self.assemblies.open or self.outcomes.pinned.values
            if replier.recent_con.pages or replier.recent_non.pages or shared or self.observations.count:
                due = self.sweep_ns
        return due

    def expire(self, now: int) -> Sequence[Command]:
        """Send due empty ACKs, retransmit unacknowledged messages, remove old entries; return pending commands."""
        waiting = self.awaiting_ack
        while waiting and (waiting[0][0] <= now or waiting[0][1].settled):
            exchange = waiting.popleft()[1]
            if not exchange.settled and not exchange.acknowledged:
                self.replier.acknowledge(exchange)
        commands: list[Command] = []
        for remote, owner in self.transmitter.expire(now):
            self.replier.count("unanswered")
            if isinstance(owner, Exchange):
                self.outcomes.undelivered(owner, now)
            else:
                commands.extend(self.outcomes.cancel_all(remote, now))
        if self.observations.ready:
            self._notify(now)
        if self.sweep_ns <= now:
            commands.extend(self._sweep(now))
        commands.extend(self.outcomes.take_later())
        self.rights.give_later(commands)
        return commands

    # Requests

    def _request(self, exchange: Exchange, payload: bytes, now: int) -> Sequence[Command]:
        options = exchange.options
        fault = options.fault
        if fault is not None:
            if fault.code == message.BAD_OPTION and not exchange.confirmable:
                self.replier.release(exchange)
                return self._reset(exchange.remote, exchange.mid, "critical-option")
            self.outcomes.fault(exchange, fault, now)
            return ()
        if exchange.size > self.datagram_bytes_max:
            self.outcomes.fault(exchange, Fault(message.TOO_LARGE, "use Block1"), now)
            return ()
        if self.period_ns:
            paid = exchange.remote.pay(self.period_ns, now)
            if paid != PAID:
                if paid == TOO_FAST and exchange.confirmable:  # 4.29 with Max-Age (RFC 8516), then silence
                    self.outcomes.fault(exchange, Fault(message.TOO_MANY_REQUESTS, "too many requests in a second"), now)
                else:
                    self.replier.count("peer-rate")
                    self.replier.release(exchange)
                return ()
        if self.replier.executing > self.requests_max or exchange.remote.executing > self.requests_peer_max:
            self.replier.overload(exchange, "requests", now)
            return ()
        self._verify(exchange, now)
        if exchange.code != message.GET and not self.replier.enter(exchange, now):
            return ()
        opened: Sequence[Command] = ()
        if options.oscore is not None:
            found = self.guard.open(exchange, payload, now)
            if found is not None:
                payload, opened = found
                self._verify(exchange, now)
                opened = [*opened, *self._execute(exchange, payload, now)]
        else:
            opened = self._execute(exchange, payload, now)
        if exchange.confirmable and not exchange.settled:
            self.awaiting_ack.append((now + self.ack_delay_ns, exchange))
        return opened

    def _verify(self, exchange: Exchange, now: int) -> None:
        """Mark the address as verified if the request repeats a valid Echo value of this endpoint."""
        echo = exchange.options.echo
        if echo and self.replier.echoes.proves(exchange.origin, echo, now):
            exchange.remote.verified_ns = now + VERIFIED_NS
            exchange.remote.stray = 0

    def _execute(self, exchange: Exchange, payload: bytes, now: int) -> Sequence[Command]:
        body = upload.assemble(self.assemblies, self.outcomes, exchange, payload, now)
        if body is None:
            return ()
        return self.resources.handle(exchange, body, now)

    # Messages other than requests

    def _not_request(self, data: bytes, remote: Remote, kind: int, code: int, now: int) -> Sequence[Command]:
        """Handle Empty messages, responses and reserved codes (sections 4.2, 4.3, 12.1)."""
        mid = data[2] << 8 | data[3]
        packet = message.decode(data)
        if packet is None or code >> 5 in (1, 6, 7):
            return self._format_error(remote, kind, mid)
        if kind == message.CON:
            return self._reset(remote, mid, "ping" if code == message.EMPTY else "unexpected-response")
        if kind == message.NON or code != message.EMPTY:
            self.replier.count("ignored")
            return ()
        owner = remote.answered(mid, kind == message.ACK, now)
        if owner is None:
            self.replier.count("stray")
            return ()
        proven = kind == message.ACK and remote.verified_ns > now
        if isinstance(owner, Observation):
            commands: Sequence[Command] = ()
            ended = kind == message.RST or owner.refused
            if not owner.cancelled and not ended:
                commands = self._confirmed(owner, proven, now)
            self.transmitter.acknowledged(remote, now)
            return self.outcomes.cancel(owner, now) if ended and not owner.cancelled else commands
        self.transmitter.acknowledged(remote, now)
        if isinstance(owner, Exchange):
            if proven and isinstance(owner.intent, Observation):
                owner.intent.proven = True
            if kind == message.RST:
                self.outcomes.undelivered(owner, now)
        return ()

    def _confirmed(self, observation: Observation, proven: bool, now: int) -> Sequence[Command]:
        """Handle the ACK of a notification: settle the message of a member, and send the next notification."""
        observation.confirmed_ns = now
        observation.proven = observation.proven or proven
        commands: Sequence[Command] = ()
        if observation.feed.member is not None:
            commands = observation.feed.member.acknowledged(observation.feed)
            self.rights.give(commands, observation.remote, observation.proof)
        if observation.waiting:
            self.transmitter.confirm(observation.remote, observation, now)
        else:
            self.observations.settled(observation)
        return commands

    def _format_error(self, remote: Remote, kind: int, mid: int) -> Sequence[Command]:
        """Reject a message with a format error: RST for a confirmable one, no answer for others (sections 4.2, 4.3)."""
        if kind == message.CON:
            return self._reset(remote, mid, "format-error")
        self.replier.count("format-error")
        return ()

    def _reset(self, remote: Remote, mid: int, why: str) -> Sequence[Command]:
        self.replier.count(why)
        self.transmitter.send(remote, message.empty(message.RST, mid))
        return ()

    def _sweep(self, now: int) -> list[Command]:
        self.sweep_ns = now + (SWEPT_ON_NS if self.shared.expire(now) else SWEEP_NS)
        silent = self.observations.silent(now + SWEEP_NS, now)
        return [QueryLatest(Check(observation), observation.feed.key[0]) for observation in silent]
