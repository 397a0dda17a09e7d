"""A datagram endpoint inside DTLS: sessions by address, around the endpoint of the protocol.

    ClientHello --HelloVerifyRequest--> ClientHello with cookie --> handshake --Finished--> session --> plain datagrams
                                          | bounds, 10 s, alert: gone          | replaces the session of the same address

A session is identified by its number, which replaces the port of its peer: state that is kept for one session does not apply
to the next one of the same address (RFC 7252, section 9.1.1).
"""

from __future__ import annotations

from collections import ChainMap, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from domain.access.access import SharedKey
from domain.address import host_bytes, network_of_host
from domain.command import Command
from domain.event import Event
from domain.limits import SECOND_NS
from gateway.runtime.security import hello
from gateway.runtime.security.dtls_context import DtlsContext
from gateway.runtime.security.dtls_session import DtlsSession
from gateway.runtime.security.hello import ALERT, HANDSHAKE, RECORD_HEAD, Cookies
from protocols.adapter import Peer, SecuredEndpoint

SESSIONS_MAX: Final = 4_096
SESSIONS_OF_HOST_MAX: Final = 128
"""A session takes some 54 KB."""
HANDSHAKES_MAX: Final = 256
HANDSHAKES_OF_HOST_MAX: Final = 16
"""Unfinished handshakes."""
RATE: Final = 256
RATE_OF_HOST: Final = 64
"""Handshakes that are begun within a second."""
FIRST_NUMBER: Final = 1 << 16
"""Numbers of sessions are above those of ports."""
NUMBERS: Final = 1 << 31
ENCRYPTED_TYPES: Final = (20, ALERT, HANDSHAKE, 23)

Address = tuple[str, int]


@final
class Rate:
    """Counts handshakes that begin within a second, by host and in all."""

    __slots__ = ("_hosts", "_second", "_total")

    def __init__(self) -> None:
        self._second = -1
        self._total = 0
        self._hosts: dict[str, int] = {}

    def take(self, host: str, now: int) -> bool:
        """Count one more of `host`. False: there were enough in this second."""
        if now // SECOND_NS != self._second:
            self._second, self._total = now // SECOND_NS, 0
            self._hosts.clear()
        count = self._hosts.get(host, 0)
        if self._total >= RATE or count >= RATE_OF_HOST:
            return False
        self._total += 1
        self._hosts[host] = count + 1
        return True


@final
class DtlsEndpoint:
    """`protocols.adapter.Endpoint`: the shell sees encrypted datagrams, `inner` plain ones.

    counts   those of `inner`, and: dtls-cookie, tls-handshake (given up or refused), connect-rate (too many), dtls-stray,
             dtls-evicted (a session made room for another one of its host)
    """

    def __init__(
        self,
        inner: SecuredEndpoint,
        context: Callable[[], DtlsContext],
        secret: bytes,
        wrong_key: Callable[[str, str], None] | None = None,
    ) -> None:
        """`context` is asked for each handshake: certificates are renewed. `secret`: of cookies, 16 bytes.

        `wrong_key(identity, host)` is called when a peer, whose address is proven, has another key than the identity it names.
        """
        self._wrong_key = wrong_key
        self._inner = inner
        self._context = context
        self._cookies = Cookies(secret)
        self._sessions: OrderedDict[Address, DtlsSession] = OrderedDict()
        self._handshakes: OrderedDict[Address, DtlsSession] = OrderedDict()
        self._of_host: dict[str, OrderedDict[Address, None]] = {}
        self._begun_of_host: dict[str, int] = {}
        self._by_number: dict[int, tuple[DtlsSession, Address]] = {}
        self._peers: dict[int, Peer] = {}
        self._rate = Rate()
        self._number = 0
        self._out: list[tuple[bytes, Address]] = []
        self._own: dict[str, int] = {}
        self.counts: Mapping[str, int] = ChainMap(self._own, inner.counts)  # type: ignore[arg-type]
        self._repeat_ns: int | None = None

    def receive(self, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        """Decrypt one datagram, or go on with a handshake. Never raises for input of a peer."""
        if len(data) < RECORD_HEAD or data[0] not in ENCRYPTED_TYPES or data[1] != 0xFE:
            self._count("malformed")
            return ()
        address = (peer.host, peer.port)
        epoch = hello.epoch_of(data)
        begun = self._handshakes.get(address)
        if epoch == 0 and data[0] == HANDSHAKE:
            greeting = hello.read(data)
            if greeting is not None and not (begun is not None and begun.random == greeting.random and greeting.cookie):
                return self._greeted(greeting, data, peer, now)
        session = self._sessions.get(address)
        if begun is not None and (epoch == 0 or data[0] == HANDSHAKE or session is None):
            return self._shake(begun, address, peer, data, now)
        if session is None or epoch == 0:
            self._count("dtls-stray")
            return ()
        return self._decrypt(session, address, data, now)

    def answer(self, event: Event, now: int) -> None:
        """Give an event to the endpoint of the protocol."""
        self._inner.answer(event, now)

    def outgoing(self) -> Sequence[tuple[bytes, Address]]:
        """Take encrypted datagrams; those for a session that has ended are dropped."""
        for plain, (_, number) in self._inner.outgoing():
            found = self._by_number.get(number)
            if found is not None:
                found[0].send(plain)
                self._take(*found)
        out, self._out = self._out, []
        return out

    def deadline(self) -> int | None:
        """The deadline of the protocol, of the oldest handshake, or of its next repetition."""
        due = self._inner.deadline()
        if self._handshakes:
            at = next(iter(self._handshakes.values())).deadline_ns
            if self._repeat_ns is not None:
                at = min(at, self._repeat_ns)
            due = at if due is None else min(due, at)
        return due

    def expire(self, now: int) -> Sequence[Command]:
        """Give up handshakes that take too long, repeat unanswered flights of others, and expire the protocol."""
        if self._handshakes:
            self._repeat_ns = None
            for address, session in list(self._handshakes.items()):
                if session.deadline_ns <= now:
                    self._give_up(address)
                    continue
                session.repeat()
                self._take(session, address)
                self._repeat_at(session, now)
        due = self._inner.deadline()
        return self._inner.expire(now) if due is not None and due <= now else ()

    def drain(self, now: int) -> None:
        """The node stops: send each session a `close_notify`, so that no client waits for answers (RFC 5246, 7.2.1)."""
        for address, session in self._sessions.items():
            session.close()
            self._take(session, address)

    # Handshakes

    def _greeted(self, greeting: hello.ClientHello, data: bytes, peer: Peer, now: int) -> Sequence[Command]:
        """A ClientHello: ask for a cookie, or begin a handshake with the one that it shows."""
        address = (peer.host, peer.port)
        if not self._cookies.proves(greeting, address, now):
            self._count("dtls-cookie")
            self._out.append((self._cookies.request(greeting, address, now), address))
            return ()
        if address in self._handshakes:
            self._forget_handshake(address)
        host = network_of_host(peer.host)
        begun = self._begun_of_host.get(host, 0)
        full = len(self._handshakes) >= HANDSHAKES_MAX or begun >= HANDSHAKES_OF_HOST_MAX
        if full or not self._rate.take(host, now):
            self._count("connect-rate")
            return ()
        self._number = (self._number + 1) % NUMBERS
        session = DtlsSession(self._context(), FIRST_NUMBER + self._number, greeting.random, data, now, peer.host)
        self._handshakes[address] = session
        self._begun_of_host[host] = begun + 1
        return self._after_step(session, address, peer, [], now)

    def _shake(self, session: DtlsSession, address: Address, peer: Peer, data: bytes, now: int) -> Sequence[Command]:
        return self._after_step(session, address, peer, session.receive(data), now)

    def _after_step(
        self, session: DtlsSession, address: Address, peer: Peer, plain: Sequence[bytes], now: int
    ) -> Sequence[Command]:
        self._take(session, address)
        if session.failed:
            if session.wrong_key and self._wrong_key is not None:
                self._wrong_key(session.identity or "", peer.host)
            self._give_up(address)
            return ()
        if not session.established:
            self._repeat_at(session, now)
            return ()
        self._forget_handshake(address)
        commands = list(self._enter(session, address, peer, now))
        for each in plain:
            commands += self._inner.receive(each, self._peers[session.number], now)
        return commands

    def _repeat_at(self, session: DtlsSession, now: int) -> None:
        left = session.timeout_ns()
        if left is not None and (self._repeat_ns is None or now + left < self._repeat_ns):
            self._repeat_ns = now + left

    def _give_up(self, address: Address) -> None:
        self._count("tls-handshake")
        self._forget_handshake(address)

    def _forget_handshake(self, address: Address) -> None:
        del self._handshakes[address]
        host = network_of_host(address[0])
        left = self._begun_of_host[host] - 1
        if left:
            self._begun_of_host[host] = left
        else:
            del self._begun_of_host[host]

    # Sessions

    def _enter(self, session: DtlsSession, address: Address, peer: Peer, now: int) -> Sequence[Command]:
        """A handshake is done. The session replaces the one of its address, or an old one when there are too many."""
        commands: list[Command] = []
        host = network_of_host(peer.host)
        of_host = self._of_host.setdefault(host, OrderedDict())
        if address in self._sessions:
            commands += self._leave(address, now)
        elif len(of_host) >= SESSIONS_OF_HOST_MAX:
            commands += self._evict(next(iter(of_host)), now)
        elif len(self._sessions) >= SESSIONS_MAX:
            commands += self._evict(next(iter(self._sessions)), now)
        self._sessions[address] = session
        self._of_host.setdefault(host, OrderedDict())[address] = None
        self._by_number[session.number] = session, address
        proven = SharedKey(session.identity, session.key) if session.identity is not None else None
        self._peers[session.number] = peer._replace(
            port=session.number, tls=True, principal=session.certified, credentials=proven,
            source=host_bytes(peer.host, session.number),
        )  # fmt: skip
        return commands

    def _decrypt(self, session: DtlsSession, address: Address, data: bytes, now: int) -> Sequence[Command]:
        plain = session.receive(data)
        commands: list[Command] = []
        if plain:
            self._sessions.move_to_end(address)
            self._of_host[network_of_host(address[0])].move_to_end(address)
            peer = self._peers[session.number]
            for each in plain:
                commands += self._inner.receive(each, peer, now)
        self._take(session, address)
        if session.failed:
            commands += self._leave(address, now)
        return commands

    def _evict(self, address: Address, now: int) -> Sequence[Command]:
        self._count("dtls-evicted")
        session = self._sessions[address]
        session.close()
        self._take(session, address)
        return self._leave(address, now)

    def _leave(self, address: Address, now: int) -> Sequence[Command]:
        """A session has ended: the protocol forgets its peer."""
        session = self._sessions.pop(address)
        host = network_of_host(address[0])
        of_host = self._of_host[host]
        del of_host[address]
        if not of_host:
            del self._of_host[host]
        del self._by_number[session.number]
        return self._inner.forget(self._peers.pop(session.number), now)

    def _take(self, session: DtlsSession, address: Address) -> None:
        """Take the datagrams that the session has to send."""
        if session.out:
            self._out += [(data, address) for data in session.out]
            session.out = []

    def _count(self, why: str) -> None:
        self._own[why] = self._own.get(why, 0) + 1
