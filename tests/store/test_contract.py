"""LogStore keeps the contract: fresh, and again on what restarts leave."""

from __future__ import annotations

import pytest

from store.config import StoreConfig
from tests.store.contract import MessageStoreContract
from tests.store.driver import Driver


class TestLogStore(MessageStoreContract):
    """A fresh store."""

    @pytest.fixture
    def driver(self) -> Driver:
        return Driver()


class TestSmallSegments(MessageStoreContract):
    """Segments, blocks and cache so small that everything spills all the time."""

    @pytest.fixture
    def driver(self) -> Driver:
        return Driver(StoreConfig(segment_bytes=2_048, cache_bytes=0, index_segment_bytes=1_024, tail_rows_max=0))
