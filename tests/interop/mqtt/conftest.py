"""Nodes whose sends are answered when they are in the page cache: one for all tests of a file, and one that a test kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.node import Node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all tests of a file."""
    with Node(tmp_path_factory.mktemp("mqtt"), "--durability", "page") as running:
        yield running


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Node]:
    """A node for one test, which kills it."""
    with Node(tmp_path, "--durability", "page") as running:
        yield running
