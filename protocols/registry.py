"""Recognition of the protocol by the first bytes of a connection (docs/ARCHITECTURE.md, shared ports).

    order   PROXY header, TLS ClientHello; then the protocols by the ranks that they declare: HTTP/2 preface, WebSocket path,
            HTTP/1.1 request, MQTT CONNECT, remoting frame
    bytes   at most 24, the length of the HTTP/2 preface

`Recogniser.recognise` is a function of bytes. `Opening` is the connection that keeps bytes until the protocol is recognised,
and then passes them to a connection of that protocol.
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
"""No rule matches, whatever bytes follow."""

RECOGNISE_BYTES_MAX: Final = 24


@final
class Recogniser:
    """The recognition rules of the installed protocols, and their ALPN ids.

    unruled       protocols without a rule: a port that takes one alone is theirs, whatever comes, except TLS
    alpn          ALPN id -> names of the protocols that declare it, in the order of their ranks
    without_tls   protocol -> the answer to a client that has sent these bytes to a port that takes TLS only
    """

    def __init__(self, declarations: Iterable[Declaration]) -> None:
        ranked = sorted(declarations, key=lambda each: (each.rank, each.name))
        paths = [each.path for each in ranked if each.path]
        self._rules: list[tuple[str, Rule]] = [(PROXY, begins), (TLS, _tls)]
        self._otherwise = {each.name: each.otherwise for each in ranked if each.otherwise}
        self.without_tls = {each.name: each.without_tls for each in ranked if each.without_tls is not None}
        for name, other in self._otherwise.items():
            if other in self.without_tls:
                self.without_tls.setdefault(name, self.without_tls[other])
        self.alpn: dict[str, tuple[str, ...]] = {}
        self.unruled: set[str] = set()
        for each in ranked:
            rule = each.begins if each.begins_carrying is None or not paths else each.begins_carrying(paths)
            if rule is not None:
                self._rules.append((each.name, rule))
            elif each.stream is not None:
                self.unruled.add(each.name)
            for name in each.alpn:
                self.alpn[name] = (*self.alpn.get(name, ()), each.name)

    def alone(self, adapters: Mapping[str, Adapter]) -> str:
        """Name of the protocol of a port with these adapters, when it is one that has no rule; "" otherwise."""
        (name, *others) = adapters or ("",)
        return name if not others and name in self.unruled else ""

    def recognise(self, data: bytes, alone: str = "") -> str:
        """Name of the protocol that `data` begins, "" when more bytes are needed, NOBODY when no rule can match.

        `alone` is the protocol of bytes that are neither TLS nor a PROXY header; "": the rules decide.

        The rules are tried in order. A rule that needs more bytes ends the search: later rules are not tried before it decides.
        """
        head = bytes(data[:RECOGNISE_BYTES_MAX])
        if not head:
            return ""
        for name, rule in self._rules[:2] if alone else self._rules:
            verdict = rule(head)
            if verdict is None:
                return ""
            if verdict:
                return name
        return alone or NOBODY

    def taken(self, name: str, adapters: Mapping[str, Adapter]) -> str:
        """Name of the adapter for the recognised protocol `name`: itself, or its declared `otherwise`; "" for neither."""
        if name not in adapters:
            name = self._otherwise.get(name, "")
        return name if name in adapters else ""


def _tls(head: bytes) -> bool | None:
    """True for a handshake record of any TLS version: `16 03` (RFC 8446 section 5.1); None when more bytes are needed."""
    if head[0] != 0x16:
        return False
    return None if len(head) < 2 else head[1] == 0x03


class SecureConnection(Connection, Protocol):
    """The TLS end of a connection, which recognises the protocol inside after the TLS handshake."""

    @property
    def protocol(self) -> str:
        """Name of the protocol inside, "" until it is recognised."""


Secure = Callable[[Peer, int], SecureConnection]
"""Makes the TLS end of a connection from the peer and the time (monotonic ns). Implemented in `gateway.runtime.tls`."""


@final
class Opening:
    """A connection whose protocol is not recognised yet.

    It is closed and counted when no rule can match, or when the protocol is not recognised within 10 s.

    chosen       this object, from recognition on the connection of the protocol
    recogniser   the rules
    adapters     adapters of this port for plain connections, by protocol name; empty beside `secure`: it takes TLS only
    secure       makes the TLS end; None: TLS is not accepted here, or this connection is inside TLS already
    """

    __slots__ = (
        "_adapters", "_deadline", "_farewell", "_inner", "_kept", "_name", "_recogniser", "_secure", "chosen",
        "closed", "peer", "reading",
    )  # fmt: skip

    def __init__(
        self, recogniser: Recogniser, adapters: Mapping[str, Adapter], secure: Secure | None, peer: Peer, now: int
    ) -> None:
        self._recogniser = recogniser
        self._adapters = adapters
        self._secure = secure
        self.peer = peer
        self._kept = b""
        self._farewell = b""
        self._deadline = now + limits.HANDSHAKE_NS
        self._name = ""
        self._inner: SecureConnection | None = None
        self.reading = True
        self.closed = False
        self.chosen: Connection = self

    @property
    def protocol(self) -> str:
        """Name of the protocol, "" until it is recognised."""
        if self._inner is not None:
            return self._inner.protocol
        # A connection that carries applications (HTTP/2) is named after the application of its first request.
        spoken: str = getattr(self.chosen, "spoken", self._name)
        return spoken

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """Keep bytes until the protocol is recognised; then pass all of them to the chosen connection."""
        if self.chosen is not self:
            return self.chosen.receive(data, now)
        if not data:
            return self._end("unrecognised-end" if self._kept else "silent")
        self._kept += data
        name = self._recogniser.recognise(self._kept, self._recogniser.alone(self._adapters))
        if name == "":
            return ()
        if name == PROXY:
            # A PROXY header of an allowed peer is read before this connection is made (protocols.proxy).
            return self._end("proxy-refused")
        if name == TLS and self._secure is not None:
            self._inner = self.chosen = self._secure(self.peer, now)
        elif self._secure is not None and not self._adapters and name != NOBODY:
            words = self._recogniser.without_tls.get(name)
            self._farewell = b"" if words is None else words(self._kept)
            return self._end("plaintext")
        else:
            name = self._recogniser.taken(name, self._adapters)
            if not name:
                return self._end("unrecognised")
            self.chosen = self._adapters[name].connect(self.peer, now)
        self._name = name
        kept, self._kept = self._kept, b""
        return self.chosen.receive(kept, now)

    def answer(self, event: Event, now: int) -> None:
        """Pass an event to the chosen connection. Before there is one no command was sent, so no event can come."""
        if self.chosen is not self:
            self.chosen.answer(event, now)

    def outgoing(self) -> Sequence[bytes]:
        """Bytes of the chosen connection; before, only the answer to a client without TLS on a port that takes TLS only."""
        if self.chosen is not self:
            return self.chosen.outgoing()
        farewell, self._farewell = self._farewell, b""
        return (farewell,) if farewell else ()

    def deadline(self) -> int | None:
        """Monotonic ns: 10 s after the connection was made, then the deadline of the chosen connection."""
        return self._deadline if self.chosen is self else self.chosen.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """Close the connection when its protocol was not recognised in time."""
        return self._end("unrecognised-late") if self.chosen is self else self.chosen.expire(now)

    def _end(self, reason: str) -> Sequence[Command]:
        if self.closed:
            return ()
        self.closed = True
        return (Disconnected(reason),)
