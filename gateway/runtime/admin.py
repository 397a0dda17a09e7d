"""The admin port: health, readiness, metrics and reload over HTTP/1.1, by aiohttp."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from gateway.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from aiohttp import web


@final
class Admin:
    """The resources of the admin port.

    /healthz           200: the process answers
    /readyz            200: the node serves clients; 503: it does not
    /metrics           metrics as Prometheus text
    /v1/admin/loaded   state of the reloadable files, as JSON
    /v1/admin/reload   POST: reload the files; 409: a file could not be used
    """

    def __init__(
        self,
        ready: Callable[[], bool],
        metrics: Callable[[], str],
        loaded: Callable[[], list[dict[str, object]]],
        reload: Callable[[], None],
    ) -> None:
        self._ready = ready
        self._loaded = loaded
        self._reload = reload
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def open(self, bound: socket.socket) -> None:
        """Serve on a bound socket."""
        from aiohttp import web

        async def health(_: web.Request) -> web.Response:
            return web.Response(text="ok\n")

        async def readiness(_: web.Request) -> web.Response:
            if self._ready():
                return web.Response(text="ready\n")
            return web.Response(status=503, text="not ready\n")

        async def metrics(_: web.Request) -> web.Response:
            return web.Response(body=self._metrics().encode(), headers={"Content-Type": CONTENT_TYPE})

        async def loaded(_: web.Request) -> web.Response:
            return web.json_response(self._loaded())

        async def reload(_: web.Request) -> web.Response:
            self._reload()
            state = self._loaded()
            return web.json_response(state, status=409 if any(subject["fault"] for subject in state) else 200)

        application = web.Application()
        application.add_routes([web.get("/healthz", health), web.get("/readyz", readiness), web.get("/metrics", metrics)])
        application.add_routes([web.get("/v1/admin/loaded", loaded), web.post("/v1/admin/reload", reload)])
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.SockSite(self._runner, bound).start()

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()
