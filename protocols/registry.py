"""Who is speaking: a protocol recognised from the first bytes of a connection (docs/ARCHITECTURE.md, shared ports).

    order   PROXY header, TLS ClientHello; then the protocols by the ranks that they declare: HTTP/2 preface, WebSocket path,
            HTTP/1.1 request, MQTT CONNECT, remoting frame
    bytes   at most 24, the length of the HTTP/2 preface

`Recogniser.recognise` is a function of bytes. `Opening` is the connection that keeps bytes until the answer is there, and then
hands them to the connection that it has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, final

from domain import limits
from domain.command import Command, Disconnected
from domain.event import Event
from protocols.adapter import Adapter, Connection, Peer
from protocols.declaration import Declaration, Rule
from protocols.proxy.header import begins

PROXY: Final = "proxy"
TLS: Final = "tls"
NOBODY: Final = "nobody"
"""No rule can match any more."""

RECOGNISE_BYTES_MAX: Final = 24


@final
class Recogniser:
    """The rules of the protocols that are installed, and what they are agreed on by in TLS.

    alpn   ALPN id -> the protocols that it stands for, in the order of their ranks
    """

    __slots__ = ("_otherwise", "_rules", "alpn")

    def __init__(self, declarations: Iterable[Declaration]) -> None:
        ranked = sorted(declarations, key=lambda each: (each.rank, each.name))
        paths = [each.path for each in ranked if each.path]
        self._rules: list[tuple[str, Rule]] = [(PROXY, begins), (TLS, _tls)]
        self._otherwise = {each.name: each.otherwise for each in ranked if each.otherwise}
        self.alpn: dict[str, tuple[str, ...]] = {}
        for each in ranked:
            rule = each.begins if each.begins_carrying is None or not paths else each.begins_carrying(paths)
            if rule is not None:
                self._rules.append((each.name, rule))
            for name in each.alpn:
                self.alpn[name] = (*self.alpn.get(name, ()), each.name)

    def recognise(self, data: bytes) -> str:
        """The protocol that `data` begins, "" when more bytes are needed, NOBODY when none can tell any more.

        The rules are asked in their order; a rule that may still match keeps the later ones from answering.
        """
        head = bytes(data[:RECOGNISE_BYTES_MAX])
        if not head:
            return ""
        for name, rule in self._rules:
            verdict = rule(head)
            if verdict is None:
                return ""
            if verdict:
                return name
        return NOBODY

    def taken(self, name: str, adapters: Mapping[str, Adapter]) -> str:
        """The protocol among `adapters` that answers one that was recognised, "" when none does."""
        if name not in adapters:
            name = self._otherwise.get(name, "")
        return name if name in adapters else ""


def _tls(head: bytes) -> bool | None:
    """A handshake record of any TLS version: `16 03` (RFC 8446 section 5.1)."""
    if head[0] != 0x16:
        return False
    return None if len(head) < 2 else head[1] == 0x03


class SecureConnection(Connection, Protocol):
    """The TLS end of a connection, which finds out later who speaks inside."""

    @property
    def protocol(self) -> str:
        """The protocol inside, "" while undecided."""


Secure = Callable[[Peer, int], SecureConnection]
"""Makes the TLS end of a connection; it lives where TLS lives, in `gateway.runtime.tls`."""


@final
class Opening:
    """A connection that does not know its protocol yet; a `Connection` like any other until `chosen` is another.

    recogniser the rules
    adapters   the protocols that this port takes in the clear, by name
    secure     makes the TLS end; None: this port takes no TLS, or this is inside it already
    Undecided after 10 s, or when no rule can match: closed and counted.
    """

    __slots__ = (
        "_adapters", "_deadline", "_inner", "_kept", "_name", "_peer", "_recogniser", "_secure", "chosen", "closed", "reading",
    )  # fmt: skip

    def __init__(
        self, recogniser: Recogniser, adapters: Mapping[str, Adapter], secure: Secure | None, peer: Peer, now: int
    ) -> None:
        self._recogniser = recogniser
        self._adapters = adapters
        self._secure = secure
        self._peer = peer
        self._kept = b""
        self._deadline = now + limits.HANDSHAKE_NS
        self._name = ""
        self._inner: SecureConnection | None = None
        self.reading = True
        self.closed = False
        self.chosen: Connection = self

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        return self._peer

    @property
    def protocol(self) -> str:
        """The name of the protocol, "" while undecided."""
        if self._inner is not None:
            return self._inner.protocol
        # A connection that carries applications (HTTP/2) is spoken by the one that its first request is for.
        spoken: str = getattr(self.chosen, "spoken", self._name)
        return spoken

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Keep bytes until they tell; then hand all of them to the chosen connection."""
        if self.chosen is not self:
            return self.chosen.receive(data, now)
        if not data:
            return self._end("unrecognised-end" if self._kept else "silent")
        self._kept += data
        name = self._recogniser.recognise(self._kept)
        if name == "":
            return ()
        if name == PROXY:
            # Whoever may send one has it read before this (protocols.proxy).
            return self._end("proxy-refused")
        if name == TLS and self._secure is not None:
            self._inner = self.chosen = self._secure(self._peer, now)
        else:
            name = self._recogniser.taken(name, self._adapters)
            if not name:
                return self._end("unrecognised")
            self.chosen = self._adapters[name].connect(self._peer, now)
        self._name = name
        kept, self._kept = self._kept, b""
        return self.chosen.receive(kept, now)

    def answer(self, event: Event, now: int) -> None:
        """Nothing was asked yet, so nothing is answered."""
        if self.chosen is not self:
            self.chosen.answer(event, now)

    def outgoing(self) -> Sequence[bytes]:
        """Nothing: whoever is not recognised gets no bytes, for we would not know in which language."""
        return () if self.chosen is self else self.chosen.outgoing()

    def deadline(self) -> int | None:
        """Ten seconds after the connection was made."""
        return self._deadline if self.chosen is self else self.chosen.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """The time is up."""
        return self._end("unrecognised-late") if self.chosen is self else self.chosen.expire(now)

    def _end(self, reason: str) -> Sequence[Command]:
        if self.closed:
            return ()
        self.closed = True
        return (Disconnected(reason),)
