"""The courier of webhooks against real servers that misbehave: what they send, and where their names lead."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from domain.errors import ConfigError
from domain.subscription.courier import ANSWER_BYTES_MAX, SinkAnswer, SinkRequest, Trouble
from domain.subscription.subscription import Credential, Scheme
from gateway.link.sinks.courier import HttpCourier
from tests.interop.certificates import write

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
LOOPBACK = ["127.0.0.0/8"]


class Server:
    """A server on loopback; `taken`: its requests."""

    def __init__(self, handler: Handler) -> None:
        self.taken: list[web.Request] = []
        self.bodies: list[bytes] = []
        self._handler = handler

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.taken.append(request)
        self.bodies.append(await request.read())
        return await self._handler(request)

    async def open(self, context: ssl.SSLContext | None = None) -> str:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self)
        self.runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = int(self.runner.addresses[0][1])
        return f"{'https' if context else 'http'}://127.0.0.1:{self.port}"


async def ask(courier: HttpCourier, url: str, timeout_ms: int = 5_000, credential: Credential | None = None) -> SinkAnswer:
    found: asyncio.Future[SinkAnswer] = asyncio.get_running_loop().create_future()
    courier.send(SinkRequest("POST", url, [("content-type", "text/plain")], b"body", timeout_ms, credential), found.set_result)
    return await found


def served(
    handler: Handler, scene: Callable[[HttpCourier, Server, str], Awaitable[None]], allow: list[str] = LOOPBACK, ca: str = "",
    context: ssl.SSLContext | None = None,
) -> None:  # fmt: skip
    async def run() -> None:
        courier = HttpCourier(allow, ca, 100)
        server = Server(handler)
        url = await server.open(context)
        try:
            await scene(courier, server, url)
        finally:
            await courier.close()
            await server.runner.cleanup()

    asyncio.run(run())


async def plain(request: web.Request) -> web.Response:
    return web.Response(text="taken", headers={"Set-Cookie": "a=b"})


def test_a_request_and_its_answer_without_cookies() -> None:
    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        for _ in range(2):
            answer = await ask(courier, f"{url}/a%2Fb?c=d%20e")
            assert (answer.status, answer.body, answer.trouble) == (200, b"taken", None)
        first, second = server.taken
        assert first.raw_path == "/a%2Fb?c=d%20e"
        assert server.bodies == [b"body", b"body"]
        assert "Cookie" not in second.headers
        assert first.headers["Accept-Encoding"] == "identity"

    served(plain, scene)


def test_redirects_are_not_followed() -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"})

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        assert (await ask(courier, url)).status == 302
        assert len(server.taken) == 1

    served(redirect, scene)


def test_an_endless_answer_is_read_to_its_bound() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        answer = await ask(courier, url)
        assert (answer.status, len(answer.body), answer.cut) == (200, ANSWER_BYTES_MAX, True)

    served(endless, scene)


def test_a_drip_fed_answer_and_a_silent_one_end_at_the_deadline() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        if request.path == "/silent":
            await asyncio.sleep(60)
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x")
            await asyncio.sleep(0.02)

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        for path in ("/", "/silent"):
            answer = await ask(courier, url + path, timeout_ms=300)
            assert (answer.status, answer.trouble) == (0, Trouble.TIMEOUT)

    served(drip, scene)


def test_a_request_that_is_ended_is_not_answered() -> None:
    async def slow(request: web.Request) -> web.Response:
        await asyncio.sleep(0.2)
        return web.Response()

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        answers: list[SinkAnswer] = []
        end = courier.send(SinkRequest("POST", url, [], b"", 5_000), answers.append)
        await asyncio.sleep(0.05)
        end()
        await asyncio.sleep(0.4)
        assert answers == []

    served(slow, scene)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"])
def test_addresses_that_are_not_allowed_get_no_connection(host: str) -> None:
    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        answer = await ask(courier, f"http://{host}:{server.port}/")
        assert answer.trouble is Trouble.REFUSED_ADDRESS
        assert "[webhook] allow" in answer.text
        assert server.taken == []

    served(plain, scene, allow=[])


def test_a_name_that_changes_is_pinned_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        loop = asyncio.get_running_loop()
        asked: list[str] = []

        async def getaddrinfo(host: Any, port: Any, **options: Any) -> list[Any]:
            asked.append(host)
            address = "127.0.0.1" if len(asked) == 1 else "10.0.0.1"
            return [(2, 1, 6, "", (address, port))]

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        answer = await ask(courier, f"http://rebinding.example:{server.port}/")
        assert answer.status == 200, answer
        assert asked == ["rebinding.example"], "resolved once for the connection"
        await courier.close()
        other = HttpCourier(LOOPBACK, "", 100)
        refused = await ask(other, f"http://rebinding.example:{server.port}/")
        assert refused.trouble is Trouble.REFUSED_ADDRESS
        await other.close()

    served(plain, scene)


def test_what_cannot_be_reached() -> None:
    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        assert (await ask(courier, "http://127.0.0.1:1/")).trouble is Trouble.CONNECTION
        assert (await ask(courier, "http://no-such-name.invalid/")).trouble in (Trouble.NAME, Trouble.REFUSED_ADDRESS)
        assert (await ask(courier, url.replace("http", "https"))).trouble in (Trouble.TLS, Trouble.CONNECTION)

    served(plain, scene)


def test_oauth2_gets_a_token_keeps_it_and_gets_another_one_after_401() -> None:
    issued: list[str] = []

    async def both(request: web.Request) -> web.Response:
        if request.path == "/token":
            name, secret = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode().split(":")
            assert (name, secret) == ("me", "very+secret")
            issued.append(f"t{len(issued) + 1}")
            return web.json_response({"access_token": issued[-1], "expires_in": 3_600})
        return web.Response(status=401 if request.headers["Authorization"] == "Bearer t1" and len(issued) == 1 else 204)

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        values = {"token_url": f"{url}/token", "client_id": "me", "client_secret": "very secret", "scope": "a"}
        credential = Credential(Scheme.OAUTH2, values)
        assert [(await ask(courier, url, credential=credential)).status for _ in range(3)] == [401, 204, 204]
        assert issued == ["t1", "t2"]

    served(both, scene)


@pytest.mark.parametrize(
    "answer", [b"no json", b"[]", b'{"access_token": 1}', b'{"access_token": "a b"}', b'{"access_token": "a\\r\\nb"}']
)
def test_a_token_endpoint_that_gives_none(answer: bytes) -> None:
    async def token(request: web.Request) -> web.Response:
        return web.Response(body=answer)

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        credential = Credential(Scheme.OAUTH2, {"token_url": url, "client_id": "me", "client_secret": "very-secret"})
        found = await ask(courier, url, credential=credential)
        assert found.trouble is Trouble.CREDENTIAL
        assert "very-secret" not in found.text

    served(token, scene)


def test_bearer() -> None:
    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        await ask(courier, url, credential=Credential(Scheme.BEARER, {"token": "abc"}))
        assert server.taken[0].headers["Authorization"] == "Bearer abc"

    served(plain, scene)


def test_mutual_tls(tmp_path: Path) -> None:
    certificate, key = write(tmp_path / "server", 1)
    mine, my_key = write(tmp_path / "client", 2)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(mine))
    context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED

    async def scene(courier: HttpCourier, server: Server, url: str) -> None:
        assert (await ask(courier, url)).trouble in (Trouble.TLS, Trouble.CONNECTION), "no certificate"
        credential = Credential(Scheme.MTLS, {"certificate": mine.read_text(), "key": my_key.read_text()})
        assert (await ask(courier, url, credential=credential)).status == 200
        wrong = Credential(Scheme.MTLS, {"certificate": "no PEM", "key": my_key.read_text()})
        found = await ask(courier, url, credential=wrong)
        assert found.trouble is Trouble.TLS
        assert "PRIVATE" not in found.text

    served(plain, scene, ca=str(certificate), context=context)


def test_an_authority_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match=r"webhook\.ca"):
        HttpCourier([], "/nowhere", 1)


def test_what_a_request_says_of_itself_has_no_secret() -> None:
    credential = Credential(Scheme.BEARER, {"token": "very-secret"})
    assert "very-secret" not in repr(SinkRequest("POST", "https://a.example/", [], b"", 1, credential))
