"""Requests to sinks of webhooks over HTTP/1.1: `domain.subscription.courier.Courier`."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, final

from domain.errors import ConfigError
from domain.subscription.courier import SinkAnswer, SinkRequest, Trouble
from domain.subscription.sink import Sink, literal_refusal, networks, sink
from domain.subscription.subscription import Credential, Scheme
from gateway.link.sinks.sink_connection import SinkConnection, plain, trouble_of
from gateway.link.sinks.sink_names import RefusedAddressError, SinkNames
from gateway.link.sinks.sink_pool import Place, SinkPool
from gateway.link.sinks.sink_tokens import SinkTokens, TokenError

CONTEXTS_MAX: Final = 1_024
TARGETS_MAX: Final = 4_096
"""URLs whose parts are remembered, with what was said of the address that they may name."""
_FIELD_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
"""No CR, LF, NUL or other control character but HTAB (RFC 9110, 5.5)."""


@lru_cache(4_096)
def target_of(url: str) -> Sink:
    """The parts of a sink's URL. Raises SubscriptionError."""
    return sink(url)


@lru_cache(4_096)
def _head(method: str, url: str) -> bytes:
    """Request line, and the fields that all requests to one URL have."""
    target = target_of(url)
    host = f"[{target.host}]" if ":" in target.host else target.host
    port = "" if target.port == (443 if target.secure else 80) else f":{target.port}"
    lines = (
        f"{method} {target.target} HTTP/1.1", f"host: {host}{port}", "user-agent: headgate", "accept: */*",
        "accept-encoding: identity",
    )  # fmt: skip
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def encode(method: str, url: str, fields: Sequence[tuple[str, str]], body: bytes) -> bytes:
    """A whole request of HTTP/1.1 (RFC 9112). Raises SubscriptionError for the URL, ValueError for a field."""
    parts = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(parts)
    if text.count("\n") != len(parts) or text.count("\r") != len(parts) or "\0" in text:
        wrong = next((name for name, value in fields if _FIELD_VALUE.fullmatch(value) is None), "?")
        raise ValueError(f"the field {wrong} has a character that no field can have")
    length = f"content-length: {len(body)}\r\n\r\n" if method == "POST" or body else "\r\n"
    return b"".join((_head(method, url), text.encode("utf-8", "replace"), length.encode(), body))


@dataclass(slots=True, eq=False)
class _Errand:
    """One request, from `send` to its answer.

    timer        ends it at its deadline
    connection   that it was sent over; None: not yet
    task         that connects, or gets a token; None: there is none
    fresh        True: the connection was made for it
    over         True: it is answered, or ended
    """

    delivery: SinkRequest
    done: Callable[[SinkAnswer], None]
    timer: asyncio.TimerHandle | None = None
    place: Place | None = None
    data: bytes = b""
    connection: SinkConnection | None = None
    task: asyncio.Task[None] | None = None
    fresh: bool = False
    over: bool = False


@final
class HttpCourier:
    """Sends requests over kept connections: without a task where one is idle.

    An address is checked when a name was resolved, and the connection goes to that address: a name that changes in between
    changes nothing. Redirects are not followed, cookies and proxies of the environment are not used. A request over a kept
    connection that ends before the first byte of an answer is sent once more over a new one.
    """

    def __init__(self, allow: Sequence[str], ca: str, connections_max: int) -> None:
        """Raises ConfigError: the file of `ca` cannot be read."""
        self._allow = networks(allow)
        self._ca = ca
        self._pool = SinkPool(SinkNames(self._allow), connections_max)
        self._tokens = SinkTokens(self._exchange)
        self._errands: set[_Errand] = set()
        self._targets: dict[str, Sink] = {}
        self._contexts: OrderedDict[tuple[str, str], ssl.SSLContext] = OrderedDict()
        self._usual = self._context("", "")

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """As the port says."""
        loop = asyncio.get_running_loop()
        errand = _Errand(delivery, done)
        errand.timer = loop.call_later(delivery.timeout_ms / 1_000, self._late, errand)
        self._errands.add(errand)
        credential = delivery.credential
        if credential is not None and credential.scheme is Scheme.OAUTH2:
            errand.task = loop.create_task(self._with_token(errand, credential))
        elif credential is not None and credential.scheme is Scheme.BEARER:
            self._begin(errand, [("authorization", f"Bearer {credential.values['token']}")])
        else:
            self._begin(errand, [])
        return partial(self._end, errand)

    async def close(self) -> None:
        """End all requests and connections."""
        for errand in list(self._errands):
            self._end(errand)
        self._pool.close()
        await asyncio.sleep(0)

    async def _exchange(self, delivery: SinkRequest) -> SinkAnswer:
        """One request, awaited."""
        answered: asyncio.Future[SinkAnswer] = asyncio.get_running_loop().create_future()
        end = self.send(delivery, lambda answer: None if answered.done() else answered.set_result(answer))
        try:
            return await answered
        finally:
            end()

    async def _with_token(self, errand: _Errand, credential: Credential) -> None:
        try:
            token = await self._tokens.token(credential, errand.delivery.timeout_ms)
        except TokenError as error:
            self._answer(errand, SinkAnswer(0, trouble=Trouble.CREDENTIAL, text=str(error)))
        else:
            errand.task = None
            if not errand.over:
                self._begin(errand, [("authorization", f"Bearer {token}")])

    def _begin(self, errand: _Errand, more: Sequence[tuple[str, str]]) -> None:
        """Send a request over an idle connection, or over a new one."""
        delivery = errand.delivery
        try:
            target = self._targets.get(delivery.url) or self._target(delivery.url)
            errand.data = encode(delivery.method, delivery.url, [*delivery.fields, *more], delivery.body)
            tls = self._context_of(delivery.credential) if target.secure else None
        except (OSError, ValueError) as error:
            asyncio.get_running_loop().call_soon(self._answer, errand, _failure_of(error))
            return
        errand.place = Place(target.host, target.port, tls)
        connection = self._pool.idle(errand.place)
        if connection is None:
            self._connect(errand)
        else:
            self._ask(errand, connection)

    def _target(self, url: str) -> Sink:
        """The parts of a URL. Raises SubscriptionError, and RefusedAddressError for an address; names are checked when they are
        resolved."""
        target = target_of(url)
        why = literal_refusal(target, self._allow)
        if why:
            raise RefusedAddressError(why)
        if len(self._targets) >= TARGETS_MAX:
            self._targets.clear()
        self._targets[url] = target
        return target

    def _connect(self, errand: _Errand) -> None:
        errand.fresh = True
        errand.task = asyncio.get_running_loop().create_task(self._connected(errand))

    async def _connected(self, errand: _Errand) -> None:
        assert errand.place is not None
        try:
            connection = await self._pool.connect(errand.place, errand.delivery.timeout_ms / 1_000)
        except (OSError, TimeoutError, ValueError) as error:
            self._answer(errand, _failure_of(error))
            return
        errand.task = None
        if errand.over:
            connection.close()
        else:
            self._ask(errand, connection)

    def _ask(self, errand: _Errand, connection: SinkConnection) -> None:
        errand.connection = connection
        connection.ask(errand.data, partial(self._came, errand))

    def _came(self, errand: _Errand, answer: SinkAnswer) -> None:
        """The answer, or what is in its place."""
        connection, errand.connection = errand.connection, None
        if answer.trouble is Trouble.CONNECTION and not errand.fresh and connection is not None and not connection.heard:
            self._connect(errand)  # the sink has closed the kept connection at the same time
            return
        credential = errand.delivery.credential
        if answer.status == 401 and credential is not None and credential.scheme is Scheme.OAUTH2:
            self._tokens.forget(credential)
        self._answer(errand, answer)

    def _answer(self, errand: _Errand, answer: SinkAnswer) -> None:
        if not errand.over:
            self._forget(errand)
            errand.done(answer)

    def _forget(self, errand: _Errand) -> None:
        errand.over = True
        self._errands.discard(errand)
        if errand.timer is not None:
            errand.timer.cancel()

    def _end(self, errand: _Errand) -> None:
        """The answer is not wanted any more."""
        if errand.over:
            return
        self._forget(errand)
        self._abandon(errand)

    def _late(self, errand: _Errand) -> None:
        """The deadline has passed."""
        if errand.over:
            return
        self._forget(errand)
        self._abandon(errand)
        within = errand.delivery.timeout_ms
        errand.done(SinkAnswer(0, trouble=Trouble.TIMEOUT, text=f"no whole answer within {within} ms"))

    def _abandon(self, errand: _Errand) -> None:
        if errand.connection is not None:
            errand.connection.end()
        if errand.task is not None:
            errand.task.cancel()

    # TLS

    def _context_of(self, credential: Credential | None) -> ssl.SSLContext:
        if credential is None or credential.scheme is not Scheme.MTLS:
            return self._usual
        key = (credential.values["certificate"], credential.values["key"])
        found = self._contexts.get(key)
        if found is None:
            found = self._contexts[key] = self._context(*key)
            while len(self._contexts) > CONTEXTS_MAX:
                self._contexts.popitem(last=False)
        return found

    def _context(self, certificate: str, key: str) -> ssl.SSLContext:
        """Raises ConfigError for `ca`, ssl.SSLError for the pair."""
        context = ssl.create_default_context()
        if self._ca:
            try:
                context.load_verify_locations(self._ca)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(f"webhook.ca: {self._ca} cannot be read: {error}") from error
        if certificate:
            # OpenSSL reads files only: one in memory, so that no key is written to a disk.
            file = os.memfd_create("certificate", os.MFD_CLOEXEC)
            try:
                os.write(file, f"{certificate}\n{key}\n".encode())
                context.load_cert_chain(f"/proc/self/fd/{file}")
            finally:
                os.close(file)
        return context


def _failure_of(error: BaseException) -> SinkAnswer:
    """The answer for a request that failed with `error`."""
    if isinstance(error, RefusedAddressError):
        return SinkAnswer(0, trouble=Trouble.REFUSED_ADDRESS, text=str(error))
    if isinstance(error, socket.gaierror):
        return SinkAnswer(0, trouble=Trouble.NAME, text="the name of the sink cannot be resolved")
    if isinstance(error, TimeoutError):
        return SinkAnswer(0, trouble=Trouble.CONNECTION, text=f"no connection: {plain(error)}")
    return trouble_of(error)
