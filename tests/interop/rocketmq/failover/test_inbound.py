"""What each protocol sends is at Apache's own side, before a cluster in controller mode as before two masters."""

from __future__ import annotations

import pytest

from tests.interop.rocketmq.test_gateway import test_what_every_protocol_sends_is_at_apaches_own_side  # noqa: F401
from tests.store.faults.soak import SOAK

pytestmark = [pytest.mark.interop, pytest.mark.skipif(not SOAK, reason="seven of Apache's servers: make soak runs it")]
