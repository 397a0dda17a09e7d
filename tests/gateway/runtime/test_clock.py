"""Time and turns on real loops."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref
from collections.abc import Callable

import pytest

from gateway.runtime.clock import LoopClock, new_loop

LOOPS = [asyncio.new_event_loop, new_loop]


@pytest.mark.parametrize("make", LOOPS)
def test_timer_is_less_than_a_millisecond_early(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = make()
    clock = LoopClock(loop)
    early: list[int] = []

    async def wait() -> None:
        for delay_ns in (1, 300_000, 1_500_000, 2_999_999):
            time.sleep(0.002)
            when = clock.monotonic_ns() + delay_ns
            done = loop.create_future()
            clock.call_at(when, lambda done=done: done.set_result(None))  # type: ignore[misc]
            await done
            early.append(min(0, clock.monotonic_ns() - when))

    loop.run_until_complete(wait())
    loop.close()
    assert min(early) > -1_000_000


@pytest.mark.parametrize("make", LOOPS)
def test_turn_runs_to_its_end_in_order(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = make()
    clock = LoopClock(loop)
    seen: list[str] = []
    loop.call_soon(lambda: seen.append("loop"))

    def first() -> None:
        seen.append("first")
        clock.call_soon(lambda: seen.append("third"))

    clock.call_soon(first)
    clock.call_soon(lambda: seen.append("second"))
    loop.call_soon(lambda: seen.append("loop after"))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert seen == ["loop", "first", "second", "third", "loop after"]


@pytest.mark.parametrize("make", LOOPS)
def test_failing_callback_does_not_take_the_others_with_it(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = make()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context["exception"]))
    clock = LoopClock(loop)
    seen: list[int] = []

    def fail() -> None:
        clock.call_soon(lambda: seen.append(3))
        raise RuntimeError("a bug")

    clock.call_soon(lambda: seen.append(1))
    clock.call_soon(fail)
    clock.call_soon(lambda: seen.append(2))
    loop.run_until_complete(asyncio.sleep(0.01))
    clock.call_soon(lambda: seen.append(4))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert seen == [1, 2, 3, 4]
    assert len(faults) == 1


@pytest.mark.parametrize("make", LOOPS)
def test_callbacks_that_never_end_leave_the_loop_its_turn(make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    loop = make()
    clock = LoopClock(loop)
    stop = False

    def again() -> None:
        if not stop:
            clock.call_soon(again)

    clock.call_soon(again)
    loop.run_until_complete(asyncio.wait_for(asyncio.sleep(0.01), 5))
    stop = True
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_a_clock_that_has_ended_calls_nothing_and_keeps_nothing() -> None:
    loop = new_loop()
    clock = LoopClock(loop)
    called: list[str] = []

    class Part:
        def work(self) -> None:
            called.append("work")

    part = Part()
    clock.call_at(clock.monotonic_ns() + 3_600_000_000_000, part.work)
    clock.call_soon(part.work)
    clock.end()
    clock.call_at(clock.monotonic_ns(), part.work)
    clock.call_soon(part.work)
    loop.run_until_complete(asyncio.sleep(0.05))
    kept = weakref.ref(part)
    del part
    gc.collect()
    assert kept() is None
    assert not called
    loop.close()
