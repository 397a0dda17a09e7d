"""A connection for tests of this folder."""

from __future__ import annotations

import pytest

from protocols.remoting.connection import RemotingConnection
from tests.protocols.remoting.frames import connection


@pytest.fixture
def conn() -> RemotingConnection:
    return connection()
