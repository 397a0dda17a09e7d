"""The admin port: who is served, and how long a connection may take."""

from __future__ import annotations

import asyncio
import base64
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from domain.access.access import Credentials, Password
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy
from gateway.connection.intake import PumpIntake
from gateway.observe.health import SERVING, Health
from gateway.observe.metrics import Snapshot
from gateway.runtime.admin import admin_connection
from gateway.runtime.admin import page as metrics_page
from gateway.runtime.admin.admin_connection import REQUEST_BYTES_MAX
from gateway.runtime.admin.application import PIECE_BYTES
from gateway.runtime.admin.port import HOST_CONNECTIONS_MAX
from gateway.runtime.admin.server import AdminServer
from gateway.runtime.admin.view import AdminView, Controls
from gateway.runtime.clock import LoopClock
from protocols.hosts import Hosts


class Users:
    """Access control with a Super user `root` and a user `guest`; both have the password `p`, and `watchers` see metrics."""

    watchers: tuple[str, ...] = ("root", "guest")

    def may_watch(self, principal: Principal) -> bool:
        """True for the watchers."""
        return principal.user in self.watchers

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        """The principal of a known user."""
        if isinstance(credentials, Password) and credentials.user in ("root", "guest") and credentials.secret == b"p":
            return Principal(credentials.user, host, privileged=credentials.user == "root")
        return Failure(ErrorCode.NOT_AUTHENTICATED, "who are you?")

    def converse(self, method: str, host: str, entropy: Entropy) -> None:
        """No exchange is offered."""


class Port:
    """An admin port on loopback."""

    def __init__(self, users: Users | None, snapshot: Callable[[], Snapshot]) -> None:
        self.reloads = 0
        health = Health(time.monotonic_ns)
        health.phase = SERVING
        self.bound = socket.create_server(("127.0.0.1", 0))
        controls = Controls(list, self._reload)
        self._view = AdminView(health, Hosts((), ""), lambda: () if users is None else (users,), snapshot, controls)
        self.admin = AdminServer(self.bound)

    def _reload(self) -> None:
        self.reloads += 1

    async def open(self) -> None:
        """Serve."""
        clock = LoopClock(asyncio.get_running_loop())
        await self.admin.serve(self._view, clock, PumpIntake(clock, lambda: 0))

    async def ask(self, data: bytes) -> bytes:
        """Everything that comes back until the node closes, as the last request wants."""
        reader, writer = await asyncio.open_connection(*self.bound.getsockname())
        writer.write(data)
        got = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return got


@contextmanager
def opened(
    authority: Users | None = None, snapshot: Callable[[], Snapshot] = Snapshot
) -> Iterator[tuple[Port, asyncio.Runner]]:
    with asyncio.Runner() as runner:
        port = Port(authority, snapshot)
        runner.run(port.open())
        yield port, runner
        runner.run(port.admin.close())


def request(method: str, path: str, *fields: str, host: str = "localhost", keep: bool = False) -> bytes:
    more = fields if keep else (*fields, "Connection: close")
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *more, "", ""]).encode()


def basic(user: str) -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:p".encode()).decode()


@pytest.mark.parametrize(
    ("data", "status", "reloads"),
    [
        (request("GET", "/healthz"), 200, 0),
        (request("GET", "/metrics", host="127.0.0.1:8088"), 200, 0),
        (request("GET", "/metrics", host="evil.example"), 421, 0),
        (request("POST", "/v1/admin/reload", host="evil.example"), 421, 0),
        (request("POST", "http://evil.example/v1/admin/reload"), 421, 0),
        (request("POST", "http://localhost:8088/v1/admin/reload", host="evil.example"), 200, 1),
        (request("POST", "http://localhost:8088/v1/admin/reload", "Origin: http://localhost"), 403, 0),
        (b"\r\n" + request("GET", "/healthz"), 200, 0),
        (request("POST", "/v1/admin/reload"), 200, 1),
        (request("POST", "/v1/admin/reload", "Origin: https://evil.example"), 403, 0),
        (request("POST", "/v1/admin/reload", "Origin: null"), 403, 0),
        (request("POST", "/v1/admin/reload", "Sec-Fetch-Site: cross-site"), 403, 0),
        (request("POST", "/v1/admin/reload", "Origin: http://localhost"), 200, 1),
    ],
)
def test_pages_of_other_sites_do_nothing_here(data: bytes, status: int, reloads: int) -> None:
    with opened() as (port, runner):
        assert runner.run(port.ask(data)).startswith(b"HTTP/1.1 %d" % status)
        assert port.reloads == reloads


@pytest.mark.parametrize(
    ("fields", "status"), [((), 401), ((basic("guest"),), 403), ((basic("root"),), 200), (("Authorization: Basic x",), 401)]
)
def test_administration_is_for_super_users(fields: tuple[str, ...], status: int) -> None:
    with opened(Users()) as (port, runner):
        assert runner.run(port.ask(request("POST", "/v1/admin/reload", *fields))).startswith(b"HTTP/1.1 %d" % status)
        assert port.reloads == (status == 200)
        assert runner.run(port.ask(request("GET", "/healthz"))).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("path", "user", "status"),
    [
        ("/healthz", "", 200),
        ("/readyz", "", 200),
        ("/metrics", "", 401),
        ("/metrics", "guest", 200),
        ("/metrics", "root", 200),
        ("/v1/admin/loaded", "guest", 403),
        ("/v1/admin/loaded", "root", 200),
        ("/v1/nothing", "", 401),
    ],
)
def test_all_but_the_health_of_the_node_asks_for_credentials(path: str, user: str, status: int) -> None:
    fields = (basic(user),) if user else ()
    with opened(Users()) as (port, runner):
        assert runner.run(port.ask(request("GET", path, *fields))).startswith(b"HTTP/1.1 %d" % status)


def test_metrics_are_for_those_who_may_watch() -> None:
    users = Users()
    users.watchers = ("root",)
    with opened(users) as (port, runner):
        assert runner.run(port.ask(request("GET", "/metrics", basic("guest")))).startswith(b"HTTP/1.1 403")


def test_requests_of_a_connection_are_answered_in_order() -> None:
    several = request("GET", "/healthz", keep=True) + request("GET", "/readyz", keep=True) + request("GET", "/nothing")
    with opened() as (port, runner):
        got = runner.run(port.ask(several))
        assert re.findall(rb"HTTP/1\.1 (\d+)", got) == [b"200", b"200", b"404"]
        assert got.index(b'"status"') < got.index(b'"ready"')


def test_a_body_belongs_to_its_request() -> None:
    body = (
        request("POST", "/v1/admin/reload", "Content-Length: 39", keep=True) + b"GET /healthz HTTP/1.1\r\nHost: forged\r\n\r\n"
    )
    with opened() as (port, runner):
        got = runner.run(port.ask(body + request("GET", "/readyz")))
        assert got.count(b"HTTP/1.1 200") == 2
        assert b'"ready"' in got
        assert b'"status"' not in got
        assert port.reloads == 1


def test_a_chunked_body_is_of_the_last_request() -> None:
    chunked = request("POST", "/v1/admin/reload", "Transfer-Encoding: chunked", keep=True) + b"3\r\nabc\r\n0\r\n\r\n"
    with opened() as (port, runner):
        got = runner.run(port.ask(chunked))
        assert got.count(b"HTTP/1.1 200") == 1
        assert b"Connection: close" in got
        assert port.reloads == 1


def test_requests_that_are_sent_ahead_wait_for_the_answer_within_the_bound_of_bytes() -> None:
    async def flood(port: Port) -> bytes:
        reader, writer = await asyncio.open_connection(*port.bound.getsockname())
        writer.write(request("GET", "/healthz", keep=True) * (2 * REQUEST_BYTES_MAX // 40))
        got = b""
        try:
            while piece := await asyncio.wait_for(reader.read(65_536), 20):
                got += piece
        except ConnectionResetError:
            pass
        writer.close()
        return got

    with opened() as (port, runner):
        assert runner.run(flood(port)).count(b"HTTP/1.1 200") < 40
        assert port.admin.refused == 1


def test_a_quiet_connection_is_closed_without_being_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_connection, "IDLE_S", 0.05)
    with opened() as (port, runner):
        assert runner.run(port.ask(request("GET", "/healthz", keep=True))).count(b"HTTP/1.1 200") == 1
        assert port.admin.refused == 0


def test_a_quiet_connection_makes_room_for_a_new_one(caplog: pytest.LogCaptureFixture) -> None:
    async def crowd(port: Port) -> list[bytes]:
        address, quiet = port.bound.getsockname(), []
        for _ in range(HOST_CONNECTIONS_MAX):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(request("GET", "/healthz", keep=True))
            await reader.readuntil(b"}")
            quiet.append((reader, writer))
        answer = await port.ask(request("GET", "/healthz"))
        first = await quiet[0][0].read()
        for _, writer in quiet:
            writer.close()
        return [answer[:12], first]

    with opened() as (port, runner):
        assert runner.run(crowd(port)) == [b"HTTP/1.1 200", b""]
        assert port.admin.refused == 0
        assert not caplog.records


@pytest.mark.parametrize("said", [b"", b"GET /healthz HT", request("POST", "/v1/admin/reload", "Content-Length: 5")])
def test_a_connection_that_says_too_little_is_closed(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_connection, "REQUEST_S", 0.1)
    with opened() as (port, runner):
        try:
            got = runner.run(port.ask(said))
        except ConnectionResetError:
            got = b""
        assert not got or said.startswith(b"POST")


def test_half_requests_leave_the_port_to_who_asks(caplog: pytest.LogCaptureFixture) -> None:
    async def crowd(port: Port) -> bytes:
        address = port.bound.getsockname()
        half = [await asyncio.open_connection(*address) for _ in range(HOST_CONNECTIONS_MAX + 20)]
        for _, writer in half:
            writer.write(b"GET /healthz HT")
        answer = await port.ask(request("GET", "/healthz"))
        for _, writer in half:
            writer.close()
        return answer

    with opened() as (port, runner):
        assert runner.run(crowd(port)).startswith(b"HTTP/1.1 200")
        assert port.admin.refused == 21
        assert sum("connections at once" in line.message for line in caplog.records) == 1


def test_a_client_that_has_sent_all_still_gets_its_answer() -> None:
    async def half_closed(port: Port) -> bytes:
        reader, writer = await asyncio.open_connection(*port.bound.getsockname())
        writer.write(request("GET", "/metrics"))
        writer.write_eof()
        got = await reader.read()
        writer.close()
        return got

    with opened() as (port, runner):
        assert runner.run(half_closed(port)).startswith(b"HTTP/1.1 200")


def test_what_is_no_http_is_answered_at_once() -> None:
    with opened() as (port, runner):
        assert runner.run(port.ask(b"\x16\x03\x01\x02")).startswith(b"HTTP/1.0 400")


def test_a_page_is_made_by_the_loop_for_all_who_ask_meanwhile() -> None:
    threads: set[int] = set()

    def snapshot() -> Snapshot:
        threads.add(threading.get_ident())
        return Snapshot()

    async def scrape(port: Port) -> list[bytes]:
        return list(await asyncio.gather(*(port.ask(request("GET", "/metrics")) for _ in range(40))))

    with opened(snapshot=snapshot) as (port, runner):
        answers = runner.run(scrape(port))
        assert all(answer.endswith(b"\n") and b"headgate_build_info" in answer for answer in answers)
        assert port.admin.pages < 10, "40 questions at once"
        assert threads == {threading.get_ident()}


def test_health_never_waits_for_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_page, "PAUSE_S", 3600.0)

    async def ask(port: Port) -> list[bytes]:
        assert (await port.ask(request("GET", "/metrics"))).startswith(b"HTTP/1.1 200")
        waiting = [asyncio.ensure_future(port.ask(request("GET", "/metrics"))) for _ in range(HOST_CONNECTIONS_MAX - 2)]
        answers = [await port.ask(request("GET", path)) for path in ("/healthz", "/readyz")]
        assert not any(question.done() for question in waiting), "the next page is made an hour later"
        for question in waiting:
            question.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return answers

    with opened() as (port, runner):
        assert [answer[:12] for answer in runner.run(ask(port))] == [b"HTTP/1.1 200"] * 2


def test_a_long_page_is_sent_in_parts() -> None:
    topics = {f"{'t' * 100}{number}": (1, 1) for number in range(1_000)}
    with opened(snapshot=lambda: Snapshot(topics=topics)) as (port, runner):
        got = runner.run(port.ask(request("GET", "/metrics")))
    head, _, page = got.partition(b"\r\n\r\n")
    assert len(page) > 3 * PIECE_BYTES
    assert b"Content-Length: %d" % len(page) in head
    assert page.count(b"headgate_topic_messages_total{") == 1_001
