"""curl on the node of a file, in both versions of HTTP."""

from __future__ import annotations

import pytest

from tests.interop.http.curl import VERSIONS, Curl
from tests.interop.node import Node


@pytest.fixture(params=VERSIONS)
def curl(node: Node, request: pytest.FixtureRequest) -> Curl:
    """Both versions."""
    return Curl(node, str(request.param))
