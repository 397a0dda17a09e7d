"""Waiting for what other threads and processes do."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float, why: Callable[[], str] | None = None) -> None:
    """Wait until `holds` is true; after `seconds` it is a failure, with what `why` says then."""
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, f"not within {seconds:g} s{'' if why is None else ': ' + why()}"
        time.sleep(0.02)
