"""One node for all tests of a file, and curl on it in both versions of HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.http.curl import VERSIONS, Curl
from tests.interop.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests here."""
    with Node(tmp_path_factory.mktemp("http")) as running:
        yield running


@pytest.fixture(params=VERSIONS)
def curl(node: Node, request: pytest.FixtureRequest) -> Curl:
    """Both versions."""
    return Curl(node, str(request.param))
