"""Every installed storage engine keeps the contract; the bundled one with small segments too."""

from __future__ import annotations

import pytest

from gateway.node.storage import engine_named
from store.settings import StoreSettings
from tests.store.contract import MessageStoreContract
from tests.store.driver import Driver
from tests.store.outside_engine import OUTSIDE, installed, outside_engine

__all__ = ["outside_engine"]


@pytest.mark.parametrize("name", [*installed(), OUTSIDE])
class TestEveryEngine(MessageStoreContract):
    """A fresh store of each engine, the one installed from outside the tree included."""

    @pytest.fixture
    def driver(self, name: str, outside_engine: str) -> Driver:
        assert name in installed()
        return Driver(engine=engine_named(name))


class TestSmallSegments(MessageStoreContract):
    """Segments, blocks and cache so small that rows spill and segments roll all the time."""

    @pytest.fixture
    def driver(self) -> Driver:
        return Driver(StoreSettings(segment_bytes=2_048, cache_bytes=0, index_segment_bytes=1_024, tail_rows_max=0))
