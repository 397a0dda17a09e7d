"""Some thousands of mutated requests of remoting and gRPC; `tests/conformance/frames.py` runs any number."""

from __future__ import annotations

from tests.conformance.frames import FrameFuzz


def test_mutated_requests() -> None:
    fuzz = FrameFuzz(20_261_121)
    for _ in range(10):
        fuzz.round()
    assert fuzz.answers > 1_500
    assert fuzz.broken > 50


def test_the_same_seed_is_the_same_run() -> None:
    runs = []
    for _ in range(2):
        fuzz = FrameFuzz(7)
        fuzz.round(500)
        runs.append((fuzz.requests, fuzz.answers, fuzz.broken))
    assert runs[0] == runs[1]
