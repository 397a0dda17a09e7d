"""Waiting for conditions that other threads and processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float, why: Callable[[], str] | None = None) -> None:
    """Wait until `holds` returns True. Fails after `seconds`, with the text that `why` returns."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, f"not within {seconds:g} s{'' if why is None else ': ' + why()}"
        time.sleep(0.02)
