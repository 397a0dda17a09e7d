"""Tests that are left out when a node is a store, gateways and a balancer (TEST_GATEWAYS), each with its reason."""

from __future__ import annotations

from typing import Final

_LIMIT: Final = "a limit on connections counts at each gateway"
ONE_PROCESS: Final = {
    "tests/interop/test_guard.py::test_address_has_its_connections_and_no_more": _LIMIT,
    "tests/interop/test_guard.py::test_proxied_connections_are_limited_by_their_own_addresses": _LIMIT,
}
"""Name of a test -> why it is about one process. It runs everywhere else."""
