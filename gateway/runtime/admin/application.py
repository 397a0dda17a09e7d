"""The aiohttp application of the admin port: health, readiness, metrics, reload and backups over HTTP/1.1.

`gateway.runtime.admin.server` imports this module in the thread that serves the port: aiohttp takes 0.1 s of CPU.
"""

from __future__ import annotations

import asyncio
import binascii
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, final

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from domain.access.access import BearerToken, Credentials, Password, SlowedLogin
from domain.errors import ErrorCode, Failure
from domain.store.backup import BackupPlan
from gateway.observe.metrics import CONTENT_TYPE
from gateway.runtime.admin.admin_connection import REQUEST_BYTES_MAX
from gateway.runtime.admin.page import MetricsPage
from gateway.runtime.admin.port import AdminPort
from gateway.runtime.admin.view import AdminView, Controls, NodeLoop, NotServedError
from protocols.hosts import origin_host
from protocols.request_line import absolute

PIECE_BYTES: Final = 64 * 1024
"""Part of the metrics page that is sent in one turn of the loop."""
REALM: Final = 'Basic realm="headgate"'
SHUTDOWN_S: Final = 1.0
"""Seconds that requests have to be answered when the port is closed."""
log = logging.getLogger("headgate.admin")
_OWN: Final = frozenset(("same-origin", "none"))
_OPEN: Final = frozenset(("/healthz", "/readyz"))
_OUTCOMES: Final = {403: ErrorCode.NOT_ALLOWED.value}
"""Status of a refusal -> outcome in the audit log."""
"""Paths for balancers and supervisors, without credentials."""


@final
class AdminApplication:
    """The resources of the admin port.

    /healthz           200: the process answers, and reports its state
    /readyz            200: the node serves clients; 503: it does not, with the reasons
    /metrics           metrics as Prometheus text
    /v1/admin/loaded   state of the reloadable files, as JSON
    /v1/admin/reload   POST: reload the files; 409: a file could not be used
    /v1/admin/backups  POST: hold the files of the store for a backup, and list them as JSON; 503: not now
    /v1/admin/backups/HOLD   POST: renew the hold; DELETE: end it; 404: it has ended

    A node that does not serve answers 503 with its reasons to everything else than health, readiness and, once its log is
    open, metrics. Where access is controlled, `/metrics` asks for the credentials of a user who may watch, and everything but
    `/healthz` and `/readyz` for those of a Super user (401, 403). A Host field that is no name of this node is answered 421,
    a POST from a page of another site 403.
    """

    def __init__(self, view: Callable[[], AdminView], node: NodeLoop, page: MetricsPage, port: AdminPort) -> None:
        """`view()`: the node in its present state."""
        self._view = view
        self._node = node
        self._page = page
        self._port = port

    def made(self) -> web.Application:
        """The application, for aiohttp's runner."""

        @web.middleware
        async def judged(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
            return await self._judged(request, handler)

        application = web.Application(middlewares=[judged], client_max_size=REQUEST_BYTES_MAX)
        one = "/v1/admin/backups/{hold:[0-9]{1,18}}"
        application.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._readiness),
                web.get("/metrics", self._metrics),
                web.get("/v1/admin/loaded", self._loaded),
                web.post("/v1/admin/reload", self._reload),
                web.post("/v1/admin/backups", self._begin_backup),
                web.post(one, self._renew_backup),
                web.delete(one, self._end_backup),
            ]
        )
        return application

    async def _judged(self, request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
        """The answer of `handler`, or why the request is not served."""
        view, path = self._view(), request.path
        user = ""
        try:
            if view.controls is None and path not in _OPEN and not (path == "/metrics" and view.shows_metrics):
                return self._unready(view, {"reasons": view.health.reasons()})
            if view.controls is not None or path not in _OPEN:
                _check_site(request, view)
            if path not in _OPEN:
                given, peer = credentials_of(request.headers.get("Authorization", "")), request.remote or ""
                user = given.user if isinstance(given, Password) and view.guards() else ""
                await self._node.run(lambda: _check_user(view, given, peer, is_for_metrics=path == "/metrics"))
            response = await handler(request)
            await self._audit(view, request, user, response.status)
            return response
        except NotServedError as refusal:
            await self._audit(view, request, user, refusal.status)
            fields = {"WWW-Authenticate": REALM} if refusal.status == 401 else {}
            if refusal.retry_s:
                fields = {"Retry-After": str(refusal.retry_s)}
            return web.Response(status=refusal.status, text=f"{refusal.text}\n", headers=fields)

    async def _audit(self, view: AdminView, request: web.Request, user: str, status: int) -> None:
        """Write down what an administrator has done, or was refused. Reads are not written here, nor are failed logins, which
        `guards` write down. `user`: "" while access is not controlled."""
        audited = view.audited
        if audited is None or request.method in ("GET", "HEAD") or status in (401, 429):
            return
        host = request.remote or ""
        outcome = _OUTCOMES.get(status, "ok" if status < 400 else str(status))
        with suppress(NotServedError):  # the node's loop has no time
            await self._node.run(lambda: audited(f"{request.method} {request.path[:128]}", user[:128], host, outcome))

    @staticmethod
    def _unready(view: AdminView, document: dict[str, object]) -> web.Response:
        fields = {"Retry-After": "1"} if view.controls is None else {}
        return web.json_response(document, status=503, headers=fields)

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response(self._view().health.document())

    async def _readiness(self, _: web.Request) -> web.Response:
        view = self._view()
        found = view.health.readiness()
        return web.json_response(found) if found["ready"] else self._unready(view, found)

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        body = await self._page.read()
        host, fields = request.remote or "", {"Content-Type": CONTENT_TYPE}
        if len(body) <= PIECE_BYTES or request.method == "HEAD":
            await self._port.turn(host)
            return web.Response(body=body, headers=fields)
        response = web.StreamResponse(headers={**fields, "Content-Length": str(len(body))})
        await response.prepare(request)
        for at in range(0, len(body), PIECE_BYTES):
            await self._port.turn(host)
            await response.write(body[at : at + PIECE_BYTES])
        await response.write_eof()
        return response

    @property
    def _controls(self) -> Controls:
        """The controls of a node that serves: requests to another one have been answered before their handler."""
        controls = self._view().controls
        assert controls is not None
        return controls

    async def _loaded(self, _: web.Request) -> web.Response:
        return web.json_response(self._controls.loaded())

    async def _reload(self, _: web.Request) -> web.Response:
        controls = self._controls
        controls.reload()
        state = controls.loaded()
        return web.json_response(state, status=409 if any(subject["fault"] for subject in state) else 200)

    async def _begin_backup(self, _: web.Request) -> web.Response:
        controls = self._controls
        backups = controls.backups
        if backups is None:
            raise NotServedError(404, "this storage engine cannot be backed up while it runs: stop the node")
        begun: asyncio.Future[tuple[int, BackupPlan] | Failure] = asyncio.get_running_loop().create_future()
        backups.begin(lambda result: None if begun.done() else begun.set_result(result))
        found = await begun
        if isinstance(found, Failure):
            raise NotServedError(503, found.text)
        hold, plan = found
        facts = {**plan._asdict(), "mark": plan.mark.hex(), "hold": hold, "lease_ms": backups.lease_ms, "data": controls.data}
        return web.json_response(facts)

    async def _renew_backup(self, request: web.Request) -> web.Response:
        backups = self._controls.backups
        return self._held(backups is not None and backups.renew(int(request.match_info["hold"])))

    async def _end_backup(self, request: web.Request) -> web.Response:
        backups = self._controls.backups
        return self._held(backups is not None and backups.end(int(request.match_info["hold"])))

    @staticmethod
    def _held(lasts: bool) -> web.Response:
        if not lasts:
            raise NotServedError(404, "the hold has ended: it was not renewed in time, or the node was restarted")
        return web.json_response({})


def runner_of(application: web.Application, port: AdminPort) -> web.AppRunner:
    """A runner of aiohttp that serves the connections of `port`, and notifies each of the begin and the end of its response."""

    async def begun(request: web.Request, response: web.StreamResponse) -> None:
        connection = port.connection_of(request.protocol)
        if connection is not None:
            connection.respond(is_stream=response.headers.get("Transfer-Encoding") == "chunked")
            if connection.last:
                response.force_close()
                response.headers["Connection"] = "close"

    @final
    class Answers(AbstractAccessLogger):
        """Called by aiohttp for each response that is written."""

        def log(self, request: Any, response: Any, time: float) -> None:
            """Let the connection have its next request."""
            connection = port.connection_of(request.protocol)
            if connection is not None:
                connection.answered()

    application.on_response_prepare.append(begun)
    return web.AppRunner(application, access_log_class=Answers, access_log=log, shutdown_timeout=SHUTDOWN_S)


def _check_site(request: web.Request, view: AdminView) -> None:
    """Raise NotServedError for a host that is no name of the node, and for a request of a page of another site."""
    found = absolute(request.raw_path.encode("latin-1", "replace"))
    host = request.headers.get("Host", "") if found is None else found[0].decode("latin-1")
    if host and not view.hosts.knows(host.encode("latin-1", "replace")):
        raise NotServedError(421, "this is no name of this node: add it to [http] hosts, or advertise it")
    origin = request.headers.get("Origin", "")
    foreign = origin_host(origin) != host.lower() if origin else request.headers.get("Sec-Fetch-Site", "none") not in _OWN
    if request.method not in ("GET", "HEAD") and foreign:
        raise NotServedError(403, "pages of other sites may not send")


def _check_user(view: AdminView, given: Credentials | None, peer: str, *, is_for_metrics: bool) -> None:
    """Raise NotServedError for a user whom no guard lets in. Called in the loop of the node.

    The refusal of a known user gives more details than that of an unknown one.
    """
    refusal: NotServedError | None = None
    for guard in view.guards():
        found = guard.authenticate(given, peer)
        if isinstance(found, SlowedLogin):
            refusal = refusal or NotServedError(429, found.text, found.retry_s)
        elif isinstance(found, Failure):
            refusal = refusal or NotServedError(401, found.text)
        elif guard.may_watch(found) if is_for_metrics else found.privileged:
            return
        else:
            refusal = NotServedError(
                403, f"this is for {'users with Get or List on the cluster' if is_for_metrics else 'Super users'}"
            )
    if refusal is not None:
        raise refusal


def credentials_of(given: str) -> Credentials | None:
    """The credentials of an Authorization field; None when it has none that are known."""
    scheme, _, value = given.partition(" ")
    if scheme.lower() == "bearer":
        return BearerToken(value.strip())
    if scheme.lower() != "basic":
        return None
    try:
        user, _, secret = b64decode(value.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return Password(user.decode("utf-8", "replace"), secret)
