"""A table for tests of this folder."""

from __future__ import annotations

import pytest

from nameserver.table import RouteTable


@pytest.fixture
def table() -> RouteTable:
    return RouteTable()
