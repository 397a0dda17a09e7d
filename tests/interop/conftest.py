"""Fixtures of the tests with foreign clients."""

from __future__ import annotations

import pytest

from tests.interop.remoting.java import JavaClient, build


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> JavaClient:
    """The Java client of RocketMQ, with a home folder for this module."""
    return build(tmp_path_factory.mktemp("java"))
