"""Each test of this folder runs over both engines of HTTP/2."""

from __future__ import annotations

import pytest

from protocols.http2.engine import EngineFactory
from tests.protocols.grpc.stage import Stage
from tests.protocols.http2.peer import ENGINES


@pytest.fixture(params=list(ENGINES.values()), ids=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> EngineFactory:
    found: EngineFactory = request.param
    return found


@pytest.fixture
def stage(engine: EngineFactory) -> Stage:
    return Stage(engine)
