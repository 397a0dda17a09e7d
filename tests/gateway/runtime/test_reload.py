"""Files that are read again: one line in the log for each time, with the cause when what they hold cannot be used."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.runtime.reload import ReloadSource


def test_each_reload_has_a_line_and_what_cannot_be_used_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headgate.reload")
    file = tmp_path / "rules"
    file.write_text("good")
    in_force: list[str] = []

    def apply() -> None:
        text = file.read_text()
        if text == "bad":
            raise ConfigError(f"{file}: line 1 is no rule: write allow or deny")
        in_force[:] = [text]

    source = ReloadSource("access", lambda: [str(file)], apply, dict)
    source.reload()
    file.write_text("bad")
    source.reload()
    assert (in_force, source.loads, source.failures) == (["good"], 1, 1)
    wrong = f"{file}: line 1 is no rule: write allow or deny"
    assert source.fault == wrong
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "access: read again and in force"),
        ("ERROR", f"access: what was in force stays in force: {wrong}"),
    ]
