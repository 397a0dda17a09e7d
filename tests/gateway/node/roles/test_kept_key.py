"""The key of a node that is changed in its file while the node runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.answer import KeyPlaceError
from gateway.client.security import AccessKey, KeyPlace
from gateway.node.roles.server_access import KeptKey
from tests.simulation.kit.clock import VirtualClock

FIELDS = {"topic": "t"}


def signed(name: str, password: str) -> dict[str, str]:
    return AccessKey(name, password).signed(FIELDS, b"body")


def test_a_key_that_is_changed_in_its_file_is_used_within_a_second(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, clock = tmp_path / "key", VirtualClock()
    with pytest.raises(KeyPlaceError):
        KeptKey(KeyPlace(str(file)), clock)
    file.write_text("one:first\n")
    key = KeptKey(KeyPlace(str(file)), clock)
    file.write_text("one:second\n")
    assert key.signed(FIELDS, b"body") == signed("one", "first"), "not read for each request"
    clock.run_for(1_000)
    assert key.signed(FIELDS, b"body") == signed("one", "second")
    file.unlink()
    for _ in range(3):
        clock.run_for(1_000)
        assert key.signed(FIELDS, b"body") == signed("one", "second")
    assert caplog.text.count("the key that was there before is used") == 1
    file.write_text("one:third\n")
    clock.run_for(1_000)
    assert key.signed(FIELDS, b"body") == signed("one", "third")
