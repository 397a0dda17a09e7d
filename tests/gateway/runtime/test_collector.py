"""The collector of cycles: no search looks at more objects than a turn of the loop has time for."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import gc, weakref
from collections import deque
from gateway.runtime.collector import KEPT_MAX, POLL_S, LOOK_TICKS, SEARCH_LOOKS, TICK_S, YOUNG, Collector
gc.disable()
due = []
def later(seconds, callback):
    assert seconds in (TICK_S, POLL_S)
    due.append(callback)
def tick():
    due.pop()()
    while len(due) > 1:
        due.pop()()
old = deque([] for _ in range(300_000))
Collector(later).begin()
most, searches = 0, 0
def look(phase, info):
    global most, searches
    if phase == "start":
        searches += 1
        most = max(most, sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))
gc.callbacks.append(look)
young = YOUNG + YOUNG // 10
class Node: pass
def cycle():
    node = Node()
    node.itself = node
    return weakref.ref(node)
"""
MANY = """
kept = []
for _ in range(200):
    kept += [[] for _ in range(2_000)]
    tick()
assert gc.get_freeze_count() > 650_000, gc.get_freeze_count()
assert 0 < most <= 2 * KEPT_MAX + 3 * young, most
gone = cycle()
more = [[] for _ in range(100_000)]
assert gone() is None
"""
AS_MANY_AS_ARE_FREED = """
for _ in range(200):
    for _ in range(2_000):
        old.popleft()
        old.append([])
    tick()
assert searches >= 200, searches
assert 0 < most <= max(KEPT_MAX, young), most
gone = cycle()
tick()
assert gone() is None
"""
KEPT_OBJECTS_ARE_SEARCHED_ONCE = """
looked = 0
def count(phase, info):
    global looked
    if phase == "start":
        looked += sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1))
gc.callbacks.append(count)
made, kept = 20 * YOUNG, []
for _ in range(made):
    kept.append([])
assert searches >= 15, searches
assert looked <= made + made // 10, looked
"""
OLD = """
node = Node()
node.itself = node
for _ in range(3):
    tick()
assert any(each is node for each in gc.get_objects(2))
gone = weakref.ref(node)
del node
for _ in range(LOOK_TICKS * SEARCH_LOOKS):
    tick()
assert gone() is None
assert most <= 2 * KEPT_MAX, most
"""
LARGE = """
seen = []
def references(phase, info):
    if phase == "start":
        searched = [each for number in range(info["generation"] + 1) for each in gc.get_objects(number)]
        seen.append((info["generation"], sum(len(each) for each in searched if type(each) is list and each is not searched)))
gc.callbacks.append(references)
kept = []
for number in range(4 * LOOK_TICKS * SEARCH_LOOKS):
    if number < 2 * LOOK_TICKS * SEARCH_LOOKS:
        kept.append([old] * 10_000)
    tick()
assert max(found for _, found in seen) <= 200_000, seen
assert any(generation == 2 for generation, _ in seen), "once they are frozen, the rest is searched again"
assert gc.get_freeze_count() > 300_000 + 100, gc.get_freeze_count()
"""


@pytest.mark.parametrize(
    "script",
    [MANY, AS_MANY_AS_ARE_FREED, KEPT_OBJECTS_ARE_SEARCHED_ONCE, OLD, LARGE],
    ids=["kept", "replaced", "once", "old", "large"],
)
def test_a_search_is_bounded_while_cycles_are_found_where_objects_are(script: str) -> None:
    command = [sys.executable, "-c", f"{BEGIN}{script}print('ok')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
