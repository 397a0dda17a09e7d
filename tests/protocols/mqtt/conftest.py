"""A broker for tests of this folder, and those in which it matters when the store answers."""

from __future__ import annotations

import pytest

from tests.late_store import near_again, near_and_late
from tests.protocols.mqtt.stage import Broker

__all__ = ["near_again", "near_and_late"]


@pytest.fixture
def broker() -> Broker:
    return Broker()
