"""The file of the audit log: for its owner alone, in parts, and never in the way."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from gateway.audit import audit_file
from gateway.audit.audit_file import AuditFile
from gateway.audit.audit_sink import SINK
from tests.patience import until


def write(*texts: str) -> None:
    assert SINK.write is not None
    for text in texts:
        SINK.write(text)


def test_lines_are_in_a_file_for_its_owner_alone(tmp_path: Path) -> None:
    path, file = tmp_path / "audit" / "audit.jsonl", AuditFile()
    file.open(path, 1_000_000, 2)
    assert not path.exists(), "it is made with its first line"
    write('{"a":1}', '{"user":"%s 100%"}')
    file.close()
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": 1}, {"user": "%s 100%"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert SINK.write is None
    assert file.figures() == {}


def test_what_was_written_before_a_restart_stays(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for text in ("one", "two"):
        file = AuditFile()
        file.open(path, 1_000_000, 2)
        write(text)
        file.close()
    assert path.read_text() == "one\ntwo\n"


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    path, file = tmp_path / "audit.jsonl", AuditFile()
    file.open(path, 1_000, 3)
    write(*("x" * 99 for _ in range(200)))
    file.close()
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3"]
    assert all(each.stat().st_size <= 1_000 and stat.S_IMODE(each.stat().st_mode) == 0o600 for each in tmp_path.iterdir())


def test_lines_that_cannot_be_written_are_counted_and_the_file_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, file = tmp_path / "audit.jsonl", AuditFile()
    full = [True]
    own = os.open

    def opened(*arguments: object) -> int:
        if full[0]:
            raise OSError(28, "No space left on device")
        return own(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opened)
    file.open(path, 1_000_000, 2)
    write("one", "two")
    until(lambda: file.figures()["audit_lines_lost_total"] == 2, 30)
    full[0] = False
    write("three")
    file.close()
    assert path.read_text() == "three\n"
    assert [line.split(":")[0] for line in caplog.messages] == [
        f"the audit log {path} cannot be written", f"the audit log {path} is written again; 2 lines are lost",
    ]  # fmt: skip


def test_a_thread_that_does_not_keep_up_costs_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_file, "LINES_MAX", 10)
    file = AuditFile()
    file.open(tmp_path / "audit.jsonl", 1_000_000, 2)
    assert file._file is not None
    with file._file.lock:  # type: ignore[union-attr]
        write(*("x" for _ in range(100)))
    lost = file.figures()["audit_lines_lost_total"]
    assert 88 <= lost <= 90
    file.close()
    assert len((tmp_path / "audit.jsonl").read_text().splitlines()) == 100 - lost
