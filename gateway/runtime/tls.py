"""TLS: a connection that decrypts records and passes the plain bytes to the protocol recognised inside.

    bytes of a ClientHello -> handshake -> first plain bytes -> the protocol inside
    kept, counted             HANDSHAKE_BYTES counted             counted no more

OpenSSL takes some 50 KiB for a connection, so it is begun with the whole ClientHello. Until the protocol inside is recognised,
what a connection holds counts in the share of its host.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from domain import limits
from domain.command import Command, Disconnected
from domain.errors import ConfigError
from domain.event import Event
from domain.refusal import Ending
from gateway.runtime.security.certificate import kept_pair
from gateway.runtime.security.dtls_context import DtlsContext, KeyOf
from gateway.runtime.security.tls_hello import HELLO_BYTES_MAX, is_whole
from protocols.adapter import Adapter, Peer
from protocols.host_shares import HostShare, HostShares
from protocols.registry import Opening, Recogniser

READ_BYTES: Final = 64 * 1024
HANDSHAKE_BYTES: Final = 48 * 1024
"""What OpenSSL holds for a handshake that is under way: measured, 44 to 51 KiB."""
HANDSHAKES_BYTES_MAX: Final = 80 * 1024 * 1024
"""Bytes of all handshakes under way: 1,706. One host has half of them at most, and always leaves room for another one."""
FAILED: Final = Ending.TLS_HANDSHAKE.value
TOO_MANY: Final = Ending.TLS_HANDSHAKES.value


@final
class TlsContexts:
    """The server's TLS contexts, one for each set of protocols. Files are loaded at the first ClientHello.

    recogniser    protocols by ALPN id; recognises the protocol inside when the client offers no ALPN
    certificate   PEM file; "": a self-signed pair in `folder`, created on first use
    key           PEM file of its private key
    names         hosts and addresses of a self-signed certificate
    client_ca     PEM file of the authority of client certificates; "": clients are not asked for one
    handshakes    bytes of handshakes that are under way
    """

    def __init__(
        self,
        recogniser: Recogniser,
        certificate: str,
        key: str,
        folder: Path,
        names: Sequence[str],
        client_ca: str = "",
    ) -> None:
        self.recogniser = recogniser
        self.handshakes = HostShares(HANDSHAKES_BYTES_MAX)
        self._client_ca = client_ca
        self._certificate = certificate
        self._key = key
        self._folder = folder
        self._names = names
        self._contexts: dict[tuple[str, ...], ssl.SSLContext] = {}
        self._version = 0

    def check(self) -> None:
        """Load the configured files. Raises ConfigError when that fails. Does not create a self-signed pair."""
        if self._certificate or self._client_ca:
            self.context(())

    def files(self) -> Sequence[str]:
        """The files that are in use: a self-signed pair only once it has been needed."""
        if not (self._certificate or self._contexts):
            return [self._client_ca] if self._client_ca else []
        return [*(self._pair()), *([self._client_ca] if self._client_ca else [])]

    def renew(self, certificate: str, key: str, client_ca: str) -> None:
        """Load these files for new connections. Open connections do not change.

        Raises ConfigError and keeps the contexts when that fails.
        """
        fresh = TlsContexts(self.recogniser, certificate, key, self._folder, self._names, client_ca)
        for protocols in self._contexts or ((),):
            if self._contexts or certificate or client_ca:
                fresh.context(protocols)
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._contexts = fresh._contexts
        self._version += 1

    def details(self) -> dict[str, object]:
        """Subject, serial number and expiry of the server's certificate, for the admin port."""
        from cryptography import x509

        files = self.files()
        if len(files) < 2:
            return {}
        try:
            shown = x509.load_pem_x509_certificate(Path(files[0]).read_bytes())
        except (OSError, ValueError) as error:
            return {"certificate": f"cannot be read: {error}"}
        return {
            "certificate": shown.subject.rfc4514_string(),
            "serial": f"{shown.serial_number:x}",
            "expires": shown.not_valid_after_utc.isoformat(),
        }

    def context(self, protocols: tuple[str, ...]) -> ssl.SSLContext:
        """A context that offers the ALPN names of `protocols`."""
        context = self._contexts.get(protocols)
        if context is None:
            certificate, key = self._pair()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_cert_chain(certificate, key)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"certificate {certificate} with key {key} cannot be used: {error}") from error
            if self._client_ca:
                context.verify_mode = ssl.CERT_OPTIONAL
                try:
                    context.load_verify_locations(self._client_ca)
                except (OSError, ssl.SSLError) as error:
                    raise ConfigError(f"client_ca {self._client_ca} cannot be used: {error}") from error
            names = [alpn for alpn, spoken in self.recogniser.alpn.items() if any(name in protocols for name in spoken)]
            if names:
                context.set_alpn_protocols(names)
            self._contexts[protocols] = context
        return context

    def for_datagrams(self, key_of: KeyOf, random: Callable[[int], bytes]) -> Callable[[], DtlsContext]:
        """A function that returns the context of DTLS handshakes: another one after `renew`."""
        made: list[tuple[int, DtlsContext]] = []

        def current() -> DtlsContext:
            if not made or made[0][0] != self._version:
                made[:] = [(self._version, DtlsContext(self._pair(), self._client_ca, key_of, random))]
            return made[0][1]

        return current

    def secure(self, adapters: Mapping[str, Adapter]) -> TlsConnectionFactory:
        """A factory of TLS ends with the connections of `adapters` inside."""
        return TlsConnectionFactory(self, adapters)

    def _pair(self) -> tuple[str, str]:
        if self._certificate:
            return self._certificate, self._key
        certificate, key = kept_pair(self._folder / "tls", self._names)
        return str(certificate), str(key)


@final
class TlsConnectionFactory:
    """Makes `TlsConnection`s (`protocols.registry.Secure`)."""

    __slots__ = ("_adapters", "_contexts", "_protocols")

    def __init__(self, contexts: TlsContexts, adapters: Mapping[str, Adapter]) -> None:
        self._contexts = contexts
        self._adapters = adapters
        self._protocols = tuple(adapters)

    def __call__(self, peer: Peer, now: int) -> TlsConnection:
        """The server's end for `peer`."""
        return TlsConnection(self._contexts, self._protocols, self._adapters, peer, now)


@final
class TlsConnection:
    """One TLS connection. The handshake must complete in ten seconds; afterwards the deadlines of the protocol inside apply.

    ALPN selects the protocol if the client offers it; otherwise the first plain bytes do.

    _hello   bytes of a ClientHello that is not complete; None: OpenSSL has them
    _share   the share of the host in handshakes that are under way; None: the protocol inside is recognised
    """

    __slots__ = (
        "_adapters", "_contexts", "_deadline", "_hello", "_incoming", "_inner", "_outgoing", "_peer", "_protocols", "_share",
        "_tls", "closed", "reading",
    )  # fmt: skip

    def __init__(
        self, contexts: TlsContexts, protocols: tuple[str, ...], adapters: Mapping[str, Adapter], peer: Peer, now: int
    ) -> None:
        self._contexts = contexts
        self._protocols = protocols
        self._adapters = adapters
        self._peer = peer._replace(tls=True)
        self._hello: bytearray | None = bytearray()
        self._share: HostShare | None = HostShare(contexts.handshakes, peer.host)
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._tls: ssl.SSLObject
        self._deadline = now + limits.HANDSHAKE_NS
        self._inner: Opening | None = None
        self.reading = True
        self.closed = False

    @property
    def protocol(self) -> str:
        """The protocol inside, "" while undecided."""
        return "" if self._inner is None else self._inner.protocol

    @property
    def unhandled(self) -> bool:
        """True while decrypted input waits in the connection that TLS carries."""
        return self._inner is not None and getattr(self._inner.chosen, "unhandled", False) is True

    def receive(self, data: bytes, now: int) -> Sequence[Command]:
        """TLS records from the peer."""
        if self.closed:
            return ()
        if not data:
            return self._end(FAILED, now)
        if self._hello is not None:
            refused = self._greet(self._hello, data)
            if refused:
                return self._end(refused, now)
            if self._hello is not None:
                return ()
        else:
            self._incoming.write(data)
        try:
            if self._inner is None:
                self._tls.do_handshake()
                self._peer = self._peer._replace(principal=common_name(self._tls))
                self._inner = Opening(self._contexts.recogniser, self._allowed(), None, self._peer, now)
            return self._read(self._inner, now)
        except ssl.SSLWantReadError:
            return ()
        except ssl.SSLError:
            return self._end(FAILED, now)

    def _greet(self, hello: bytearray, data: bytes) -> str:
        """Keep bytes of the ClientHello, and begin when it is complete. Returns why the connection ends; "": it goes on."""
        assert self._share is not None
        whole = not hello and is_whole(data)
        if not whole:
            if not self._share.take(len(data)):
                return TOO_MANY
            hello += data
            whole = is_whole(hello)
        if not whole:
            return FAILED if len(hello) > HELLO_BYTES_MAX else ""
        self._share.release()
        if not self._share.take(HANDSHAKE_BYTES):
            return TOO_MANY
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = self._contexts.context(self._protocols)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(hello or data)
        self._hello = None
        return ""

    def _read(self, inner: Opening, now: int) -> Sequence[Command]:
        commands: list[Command] = []
        plain = b"?"
        while plain and not inner.chosen.closed:
            try:
                plain = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLError:  # close_notify (SSLZeroReturnError) or an invalid record: the end of the stream
                plain = b""
            commands += inner.receive(plain, now)
        if self._share is not None and inner.protocol:
            self._share.release()
            self._share = None
        self._sync_state(inner)
        return commands

    def _allowed(self) -> Mapping[str, Adapter]:
        agreed = self._tls.selected_alpn_protocol()
        if agreed is None:
            return self._adapters
        spoken = self._contexts.recogniser.alpn[agreed]
        return {name: self._adapters[name] for name in spoken if name in self._adapters}

    def _end(self, reason: str, now: int) -> Sequence[Command]:
        if self._share is not None:
            self._share.release()
        if self._inner is None:
            self.closed = True
            return (Disconnected(reason),)
        commands = self._inner.receive(b"", now)
        self._sync_state(self._inner)
        return commands

    def _sync_state(self, inner: Opening) -> None:
        """Copy `reading` and `closed` from the protocol inside."""
        self.reading = inner.chosen.reading
        self.closed = inner.chosen.closed

    def answer(self, event: Event, now: int) -> None:
        """Give an event to the protocol inside."""
        if self._inner is not None:
            self._inner.answer(event, now)
            self._sync_state(self._inner)

    def outgoing(self) -> Sequence[bytes]:
        """TLS records with the output of the protocol inside, of the handshake, and close_notify."""
        if self._inner is not None:
            for part in self._inner.outgoing():
                if part:
                    self._tls.write(part)
            self._sync_state(self._inner)
            if self.closed:
                self._goodbye()
        return (self._outgoing.read(),) if self._hello is None and self._outgoing.pending else ()

    def _goodbye(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLError:  # close_notify is queued; do not wait for the peer's
            return

    def deadline(self) -> int | None:
        """The deadline of the handshake, afterwards that of the protocol inside."""
        return self._deadline if self._inner is None else self._inner.deadline()

    def expire(self, now: int) -> Sequence[Command]:
        """Expire the handshake, afterwards the protocol inside."""
        if self._inner is None:
            return self._end(FAILED, now)
        commands = self._inner.expire(now)
        self._sync_state(self._inner)
        return commands

    @property
    def drains(self) -> bool:
        """True when the protocol inside has a message for clients of a node that stops."""
        return self._inner is not None and hasattr(self._inner.chosen, "drain")

    def drain(self, now: int) -> Sequence[Command]:
        """Notify the protocol inside that the node stops, if it has a message for its client."""
        verb = getattr(self._inner.chosen, "drain", None) if self._inner is not None else None
        if self._inner is None or verb is None:
            return ()
        commands: Sequence[Command] = verb(now)
        self._sync_state(self._inner)
        return commands


def common_name(tls: ssl.SSLObject) -> str:
    """The common name of the peer's verified certificate; "": it has sent none."""
    shown: Any = tls.getpeercert() or {}
    names = [value for part in shown.get("subject", ()) for name, value in part if name == "commonName"]
    return str(names[0]) if names else ""
