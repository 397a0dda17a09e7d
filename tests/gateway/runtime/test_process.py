"""What the process says about the compilation beside it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gateway.runtime import process


def test_end_of_the_compilation_is_logged_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    looks = iter([True, True, False])
    monkeypatch.setattr(process, "COMPILING_CHECK_S", 0.0)
    monkeypatch.setattr(process, "under_way", lambda: next(looks))
    monkeypatch.setattr(process, "at_next_start", lambda: "128 compiled modules")
    loop = asyncio.new_event_loop()
    with caplog.at_level(logging.INFO, "headgate.process"):
        process.say_when_compiled(loop)
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
    loop.close()
    assert caplog.messages == ["the compilation has ended; from the next start on: 128 compiled modules"]
    assert list(looks) == []
