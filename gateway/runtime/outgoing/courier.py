"""Requests to sinks of webhooks: aiohttp's client behind `domain.subscription.courier.Courier`."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, final

from domain.errors import ConfigError
from domain.subscription.courier import ANSWER_BYTES_MAX, SinkAnswer, SinkRequest, Trouble
from domain.subscription.sink import Network, Sink, networks, refusal, sink
from domain.subscription.subscription import Credential, Scheme

if TYPE_CHECKING:
    import aiohttp

KEPT_S: Final = 15.0
"""An idle connection is kept so long."""
NAMES_S: Final = 10.0
"""The addresses of a name are kept so long; each new connection goes to one of them, and to no other."""
CONTEXTS_MAX: Final = 1_024
TOKENS_MAX: Final = 10_000
TOKEN_MARGIN_S: Final = 30.0
TOKEN_S: Final = 300.0
"""Life of a token whose answer does not say."""


class RefusedAddressError(OSError):
    """The addresses of a sink are none that sinks may have."""


class TokenError(Exception):
    """The token endpoint gave no token."""


@final
class HttpCourier:
    """Sends requests, each as a task.

    An address is checked when a name was resolved, and the connection goes to that address: a name that changes in between
    changes nothing. Redirects are not followed, cookies and proxies of the environment are not used.
    """

    def __init__(self, allow: Sequence[str], ca: str, connections_max: int) -> None:
        """Raises ConfigError: the file of `ca` cannot be read."""
        self._allow: tuple[Network, ...] = networks(allow)
        self._ca = ca
        self._connections_max = connections_max
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._contexts: OrderedDict[tuple[str, str], ssl.SSLContext] = OrderedDict()
        self._tokens: OrderedDict[tuple[tuple[str, str], ...], tuple[str, float]] = OrderedDict()
        self._usual = self._context("", "")

    def send(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> Callable[[], None]:
        """As the port says."""
        task = asyncio.get_running_loop().create_task(self._run(delivery, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return lambda: _end(task)

    async def close(self) -> None:
        """End all requests and connections."""
        for task in list(self._tasks):
            task.cancel()
        for session in self._sessions.values():
            await session.close()

    async def _run(self, delivery: SinkRequest, done: Callable[[SinkAnswer], None]) -> None:
        try:
            async with asyncio.timeout(delivery.timeout_ms / 1_000):
                answer = await self._exchange(delivery)
        except TimeoutError:
            answer = SinkAnswer(0, trouble=Trouble.TIMEOUT, text=f"no whole answer within {delivery.timeout_ms} ms")
        done(answer)

    async def _exchange(self, delivery: SinkRequest) -> SinkAnswer:
        import aiohttp

        try:
            fields = [*delivery.fields, *await self._authorization(delivery.credential)]
            answer = await self._ask(delivery.method, delivery.url, fields, delivery.body, delivery.credential)
        except TokenError as error:
            return SinkAnswer(0, trouble=Trouble.CREDENTIAL, text=str(error))
        except RefusedAddressError as error:
            return SinkAnswer(0, trouble=Trouble.REFUSED_ADDRESS, text=str(error))
        except aiohttp.ClientConnectorDNSError as error:
            if isinstance(error.os_error, RefusedAddressError):
                return SinkAnswer(0, trouble=Trouble.REFUSED_ADDRESS, text=str(error.os_error))
            return SinkAnswer(0, trouble=Trouble.NAME, text="the name of the sink cannot be resolved")
        except (aiohttp.ClientSSLError, ssl.SSLError) as error:
            return SinkAnswer(0, trouble=Trouble.TLS, text=f"TLS: {_plain(error)}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return SinkAnswer(0, trouble=Trouble.CONNECTION, text=_plain(error))
        if answer.status == 401 and delivery.credential is not None:
            self._tokens.pop(_key(delivery.credential), None)
        return answer

    async def _ask(
        self, method: str, url: str, fields: Sequence[tuple[str, str]], body: bytes, credential: Credential | None
    ) -> SinkAnswer:
        """One request. Raises what aiohttp raises, RefusedAddressError and ValueError."""
        from yarl import URL

        target = sink(url)
        self._check_literal(target)
        session = self._session(target.secure)
        context = self._context_of(credential) if target.secure else False
        async with session.request(
            method, URL(url, encoded=True), data=body if method == "POST" else None, headers=list(fields), ssl=context,
            allow_redirects=False,
        ) as response:  # fmt: skip
            found = bytearray()
            whole = False
            while len(found) < ANSWER_BYTES_MAX:
                part = await response.content.read(ANSWER_BYTES_MAX - len(found))
                if not part:
                    whole = True
                    break
                found += part
            if not whole:
                response.close()  # what comes behind it is not read
            return SinkAnswer(
                response.status, [(name.lower(), value) for name, value in response.headers.items()], bytes(found)
            )

    def _check_literal(self, target: Sink) -> None:
        """Names are checked when they are resolved; an address is its own name."""
        if ":" in target.host or target.host.replace(".", "").isdigit():
            why = refusal(target.host, target.secure, self._allow)
            if why:
                raise RefusedAddressError(why)

    def _session(self, secure: bool) -> aiohttp.ClientSession:
        """The connections over TLS, or those without: http may go to fewer addresses."""
        found = self._sessions.get(secure)
        if found is None:
            import aiohttp

            resolver: Any = _Resolver(self._allow, secure)
            connector = aiohttp.TCPConnector(
                limit=self._connections_max, limit_per_host=0, ttl_dns_cache=int(NAMES_S), resolver=resolver,
                keepalive_timeout=KEPT_S,
            )  # fmt: skip
            found = self._sessions[secure] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), trust_env=False, auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None), skip_auto_headers=("Content-Type",),
                headers={"User-Agent": "headgate", "Accept": "*/*", "Accept-Encoding": "identity"},
            )  # fmt: skip
        return found

    # Credentials

    async def _authorization(self, credential: Credential | None) -> list[tuple[str, str]]:
        if credential is None or credential.scheme not in (Scheme.BEARER, Scheme.OAUTH2):
            return []
        if credential.scheme is Scheme.BEARER:
            return [("authorization", f"Bearer {credential.values['token']}")]
        return [("authorization", f"Bearer {await self._token(credential)}")]

    async def _token(self, credential: Credential) -> str:
        """A token by client credentials (RFC 6749, 4.4), kept until shortly before its end. Raises TokenError."""
        import orjson
        from aiohttp import BasicAuth, ClientError

        key = _key(credential)
        known = self._tokens.get(key)
        if known is not None and monotonic() < known[1]:
            return known[0]
        values = credential.values
        form = {"grant_type": "client_credentials", **({"scope": values["scope"]} if "scope" in values else {})}
        from urllib.parse import quote_plus, urlencode

        fields = [
            ("authorization", BasicAuth(quote_plus(values["client_id"]), quote_plus(values["client_secret"])).encode()),
            ("content-type", "application/x-www-form-urlencoded"),
            ("accept", "application/json"),
        ]
        try:
            answer = await self._ask("POST", values["token_url"], fields, urlencode(form).encode(), None)
            found = orjson.loads(answer.body) if answer.status == 200 else None
        except (ClientError, OSError, ValueError) as error:
            raise TokenError(f"no token: {_plain(error)}") from None
        if (
            not isinstance(found, dict)
            or not isinstance(found.get("access_token"), str)
            or not _is_token(found["access_token"])
        ):
            raise TokenError(f"no token: the token endpoint answered {answer.status}")
        lasts = found.get("expires_in")
        seconds = float(lasts) if isinstance(lasts, int) and 0 < lasts < 1_000_000 else TOKEN_S
        self._tokens[key] = (found["access_token"], monotonic() + max(1.0, seconds - TOKEN_MARGIN_S))
        while len(self._tokens) > TOKENS_MAX:
            self._tokens.popitem(last=False)
        return str(found["access_token"])

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


@final
class _Resolver:
    """aiohttp's AbstractResolver: the addresses of a name that sinks may have."""

    def __init__(self, allow: Sequence[Network], secure: bool) -> None:
        self._allow = allow
        self._secure = secure

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_UNSPEC) -> list[dict[str, object]]:
        """The allowed addresses. Raises RefusedAddressError when there are only others, OSError when there are none."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
        out: list[dict[str, object]] = []
        why = ""
        for kind, _, protocol, _, address in found:
            text = str(address[0])
            refused = refusal(text, self._secure, self._allow)
            if refused:
                why = why or f"{host}: {refused}"
                continue
            out.append(
                {
                    "hostname": host,
                    "host": text,
                    "port": port,
                    "family": kind,
                    "proto": protocol,
                    "flags": socket.AI_NUMERICHOST,
                }
            )
        if not out:
            raise RefusedAddressError(why or f"{host} has no address")
        return out

    async def close(self) -> None:
        """Nothing is open."""


def _end(task: asyncio.Task[None]) -> None:
    task.cancel()


def _key(credential: Credential) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(credential.values.items()))


def _is_token(text: str) -> bool:
    return 0 < len(text) <= 16_384 and text.isascii() and text.isprintable() and " " not in text


def _plain(error: BaseException) -> str:
    """The words of an error, without addresses of memory or secrets: errors of aiohttp name host and port."""
    return str(error)[:300] or type(error).__name__
