"""A store serves when its topics are stored: alone its disk has a limited time for that, a leader as long as it leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from domain.errors import StoreError
from gateway.node.client_side import ClientPlace
from gateway.node.composition import StorePlace, StoreSide, known, open_store
from gateway.node.protocols import installed
from gateway.node.roles import store
from gateway.node.roles.installed_roles import RoleContext
from gateway.node.roles.local_store import LocalStore
from gateway.node.roles.store import StoreRole
from gateway.node.settings import load
from gateway.observe.health import Health
from gateway.runtime.clock import LoopClock
from gateway.usecase.dispatcher import Dispatcher


class Scene:
    """A store that is being opened. `ready`: its topics are stored; `over`: why it leads no more."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ready = False
        self.over = ""


def played(folder: Path, scene: Scene, main: Callable[[asyncio.Task[None]], Awaitable[None]]) -> None:
    parts = known(installed())
    config = load({"data": str(folder / "data")}, {}, parts)

    async def run() -> None:
        clock = LoopClock(asyncio.get_running_loop())

        async def make(local: LocalStore, place: ClientPlace) -> StoreSide:
            store = open_store(place, StorePlace(local.disk, 0, local.report))
            return StoreSide(store=store, epoch=scene.epoch, over=lambda: scene.over)

        role = StoreRole(RoleContext(config, clock, Health(clock.monotonic_ns), installed(), {}, lambda: None), make)
        opening = asyncio.get_running_loop().create_task(role.open(dict(parts.ports), "127.0.0.1"))
        try:
            await main(opening)
        finally:
            await role.close()

    asyncio.run(run())


@pytest.fixture(params=[0, 7])
def scene(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Scene:
    found = Scene(request.param)
    monkeypatch.setattr(store, "SETTLE_NS", 0)
    monkeypatch.setattr(Dispatcher, "ready", property(lambda _self: found.ready))
    return found


def test_only_a_store_alone_is_given_up(scene: Scene, tmp_path: Path) -> None:
    async def main(opening: asyncio.Task[None]) -> None:
        if scene.epoch == 0:
            with pytest.raises(StoreError, match="takes no writes"):
                await opening
            return
        await asyncio.sleep(0.2)
        assert not opening.done()
        scene.ready = True
        await opening

    played(tmp_path, scene, main)


@pytest.mark.parametrize("scene", [7], indirect=True)
def test_a_leader_that_is_deposed_meanwhile_is_closed_like_any_other(scene: Scene, tmp_path: Path) -> None:
    async def main(opening: asyncio.Task[None]) -> None:
        await asyncio.sleep(0.05)
        scene.over = "another replica leads"
        await opening

    played(tmp_path, scene, main)
