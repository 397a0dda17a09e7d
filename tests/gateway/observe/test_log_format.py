"""The process's log: lines for people, or an object a line with the facts of an event."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from domain.store.store_event import StoreEvent, StoreEventKind
from gateway.observe.log_format import configure
from gateway.observe.store_log import log_store_event

EVENT = StoreEvent(StoreEventKind.FULL, "log/00000000000000000000", "no space left on the device", "delete something")


@pytest.fixture(autouse=True)
def root() -> Iterator[None]:
    before = logging.getLogger().handlers[:], logging.getLogger().level
    yield
    logging.getLogger().handlers, logging.getLogger().level = before


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", "json")
    log_store_event(EVENT)
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"], found["event"]) == ("ERROR", "headgate.store", "full")
    assert (found["file"], found["cause"], found["remedy"]) == (EVENT.file, EVENT.cause, EVENT.remedy)
    assert found["time"]


def test_text_and_levels(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning", "text")
    log_store_event(StoreEvent(StoreEventKind.RECOVERING, "", "64 of 512 MiB of the log read"))
    log_store_event(EVENT)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"ERROR headgate.store: store full: {EVENT.file}: {EVENT.cause}: {EVENT.remedy}")
