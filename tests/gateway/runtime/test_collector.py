"""The collector of cycles: no search looks at more objects than a turn of the loop has time for."""

from __future__ import annotations

import subprocess
import sys

MANY = """
import gc
from gateway.runtime.collector import KEPT_MAX, YOUNG, YOUNG_SEARCHES, collect_rarely
gc.disable()
old = [[] for _ in range(300_000)]
collect_rarely()
most = 0
def look(phase, info):
    global most
    if phase == "start":
        most = max(most, sum(len(gc.get_objects(each)) for each in range(info["generation"] + 1)))
gc.callbacks.append(look)
kept = [[] for _ in range(400_000)]
assert gc.get_freeze_count() > 600_000, gc.get_freeze_count()
young = YOUNG * (YOUNG_SEARCHES + 2)
assert 0 < most <= 2 * KEPT_MAX + 3 * young, most
class Node: pass
import weakref
node = Node()
node.itself = node
gone = weakref.ref(node)
del node
more = [[] for _ in range(100_000)]
assert gone() is None
print("ok")
"""


def test_what_survives_is_frozen_and_a_search_is_bounded_while_young_cycles_are_found() -> None:
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=False, timeout=120)
    assert (done.stdout, done.returncode) == ("ok\n", 0), done.stderr
