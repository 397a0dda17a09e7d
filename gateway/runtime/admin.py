"""The admin port: health, readiness, metrics and reload over HTTP/1.1, by aiohttp.

One request a connection, which has 10 s and REQUEST_BYTES_MAX to arrive, and 10 s for its response to be read
(gateway.runtime.admin_port).
"""

from __future__ import annotations

import asyncio
import binascii
import socket
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, final

from domain.access import Authority, BearerToken, Credentials, Password
from domain.backup import BackupPlan, Backups
from domain.errors import Failure
from domain.ports import Clock
from domain.principal import Principal
from gateway.connection.intake import PumpIntake
from gateway.observe.health import Health
from gateway.observe.metrics import CONTENT_TYPE, Snapshot
from gateway.runtime.admin_port import CONNECTIONS_MAX, REQUEST_BYTES_MAX, AdminPort
from gateway.runtime.machine import open_files_max
from gateway.runtime.metrics_page import MetricsPage
from protocols.hosts import Hosts, origin_host

if TYPE_CHECKING:
    from aiohttp import web

FILES_SHARE: Final = 32
"""Of the files that the process may open, one in so many is for connections of the admin port, at most."""
PIECE_BYTES: Final = 64 * 1024
"""Part of the metrics page that is sent in one turn of the loop."""
_OWN: Final = frozenset(("same-origin", "none"))
_OPEN: Final = frozenset(("/healthz", "/readyz"))
"""What balancers and supervisors ask, without credentials."""


@final
class Admin:
    """The resources of the admin port.

    /healthz           200: the process answers, and says what it does
    /readyz            200: the node serves clients; 503: it does not, with the reasons
    /metrics           metrics as Prometheus text
    /v1/admin/loaded   state of the reloadable files, as JSON
    /v1/admin/reload   POST: reload the files; 409: a file could not be used
    /v1/admin/backups  POST: hold the files of the store for a backup, and list them as JSON; 503: not now
    /v1/admin/backups/HOLD   POST: renew the hold; DELETE: end it; 404: it has ended

    Where access is controlled, `/metrics` asks for the credentials of a user who `may_watch`, and everything but `/healthz`
    and `/readyz` for those of a Super user (401, 403). A Host field that is no name of this node is answered 421, a POST from
    a page of another site 403.
    """

    def __init__(
        self,
        health: Health,
        snapshot: Callable[[], Snapshot],
        loaded: Callable[[], list[dict[str, object]]],
        reload: Callable[[], None],
        hosts: Hosts,
        authority: Authority | None = None,
        backups: Backups | None = None,
        data: str = "",
        may_watch: Callable[[Principal], bool] = lambda principal: principal.privileged,
    ) -> None:
        """`backups` of the store in the folder `data`; None when its engine has none."""
        self._backups = backups
        self._data = data
        self._hosts = hosts
        self._authority = authority
        self._may_watch = may_watch
        self.port: AdminPort | None = None
        self.page: MetricsPage | None = None
        self._health = health
        self._loaded = loaded
        self._reload = reload
        self._snapshot = snapshot
        self._runner: web.AppRunner | None = None

    @property
    def refused(self) -> int:
        """Connections that a bound has closed."""
        return 0 if self.port is None else self.port.refused

    async def open(self, bound: socket.socket, clock: Clock, intake: PumpIntake) -> None:
        """Serve on a bound socket. `intake` shares the turns of the loop with the other ports."""
        from aiohttp import web

        async def health(_: web.Request) -> web.Response:
            return web.json_response(self._health.document())

        async def readiness(_: web.Request) -> web.Response:
            found = self._health.readiness()
            return web.json_response(found, status=200 if found["ready"] else 503)

        async def metrics(request: web.Request) -> web.StreamResponse:
            return await self._metrics(request)

        async def loaded(_: web.Request) -> web.Response:
            return web.json_response(self._loaded())

        async def reload(_: web.Request) -> web.Response:
            self._reload()
            state = self._loaded()
            return web.json_response(state, status=409 if any(subject["fault"] for subject in state) else 200)

        @web.middleware
        async def judged(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
            return self._refusal(request) or await handler(request)

        async def last(request: web.Request, response: web.StreamResponse) -> None:
            response.force_close()
            connection = port.connection_of(request.protocol)
            if connection is not None:
                connection.restart()

        application = web.Application(middlewares=[judged], client_max_size=REQUEST_BYTES_MAX)
        application.on_response_prepare.append(last)
        application.add_routes([web.get("/healthz", health), web.get("/readyz", readiness), web.get("/metrics", metrics)])
        application.add_routes([web.get("/v1/admin/loaded", loaded), web.post("/v1/admin/reload", reload)])
        one = "/v1/admin/backups/{hold:[0-9]{1,18}}"
        application.add_routes([web.post("/v1/admin/backups", self._begin_backup)])
        application.add_routes([web.post(one, self._renew_backup), web.delete(one, self._end_backup)])
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        serve: Any = self._runner.server
        port = self.port = AdminPort(bound, serve, clock, intake, min(CONNECTIONS_MAX, max(open_files_max() // FILES_SHARE, 8)))
        self.page = MetricsPage(self._snapshot, clock, port)
        port.open()

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        page, port = self.page, self.port
        assert page is not None
        assert port is not None
        body = await page.read()
        host, fields = request.remote or "", {"Content-Type": CONTENT_TYPE}
        if len(body) <= PIECE_BYTES or request.method == "HEAD":
            await port.turn(host)
            return web.Response(body=body, headers=fields)
        response = web.StreamResponse(headers={**fields, "Content-Length": str(len(body))})
        await response.prepare(request)
        for at in range(0, len(body), PIECE_BYTES):
            await port.turn(host)
            await response.write(body[at : at + PIECE_BYTES])
        await response.write_eof()
        return response

    async def _begin_backup(self, _: web.Request) -> web.Response:
        from aiohttp import web

        backups = self._backups
        if backups is None:
            return web.Response(status=404, text="this storage engine cannot be backed up while it runs: stop the node\n")
        begun: asyncio.Future[tuple[int, BackupPlan] | Failure] = asyncio.get_running_loop().create_future()
        backups.begin(lambda result: None if begun.done() else begun.set_result(result))
        found = await begun
        if isinstance(found, Failure):
            return web.Response(status=503, text=f"{found.text}\n")
        hold, plan = found
        facts = {**plan._asdict(), "mark": plan.mark.hex(), "hold": hold, "lease_ms": backups.lease_ms, "data": self._data}
        return web.json_response(facts)

    async def _renew_backup(self, request: web.Request) -> web.Response:
        return self._held(self._backups is not None and self._backups.renew(int(request.match_info["hold"])))

    async def _end_backup(self, request: web.Request) -> web.Response:
        return self._held(self._backups is not None and self._backups.end(int(request.match_info["hold"])))

    def _held(self, lasts: bool) -> web.Response:
        from aiohttp import web

        if lasts:
            return web.json_response({})
        return web.Response(status=404, text="the hold has ended: it was not renewed in time, or the node was restarted\n")

    def _refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a request that is not served, None for one that is."""
        from aiohttp import web

        host = request.headers.get("Host", "")
        if host and not self._hosts.knows(host.encode("latin-1", "replace")):
            return web.Response(status=421, text="this is no name of this node: add it to [http] hosts, or advertise it\n")
        origin = request.headers.get("Origin", "")
        foreign = origin_host(origin) != host.lower() if origin else request.headers.get("Sec-Fetch-Site", "none") not in _OWN
        if request.method not in ("GET", "HEAD") and foreign:
            return web.Response(status=403, text="pages of other sites may not send\n")
        if self._authority is None or request.path in _OPEN:
            return None
        found = self._authority.authenticate(credentials_of(request.headers.get("Authorization", "")), request.remote or "")
        if isinstance(found, Failure):
            return web.Response(status=401, text=f"{found.text}\n", headers={"WWW-Authenticate": 'Basic realm="headgate"'})
        if request.path == "/metrics":
            granted, who = self._may_watch(found), "users with Get or List on the cluster"
        else:
            granted, who = found.privileged, "Super users"
        return None if granted else web.Response(status=403, text=f"this is for {who}\n")

    async def close(self) -> None:
        """Stop serving."""
        if self.port is not None:
            self.port.close()
        if self.page is not None:
            self.page.close()
        if self._runner is not None:
            await self._runner.cleanup()


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
