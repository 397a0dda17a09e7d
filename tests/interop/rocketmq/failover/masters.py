"""Kills of Apache's masters, each with its times."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.interop.rocketmq.controllers import ControllerCluster
from tests.interop.rocketmq.failover.recovery import Kill


def kill_and_restart(apache: ControllerCluster, group: str, go_on: Callable[[], None]) -> Kill:
    """Kill the master of a group, start it again after `go_on`, and wait until it is in sync.

    go_on   called when the controller has named another master; waits until the load goes on
    """
    dead = apache.kill_master(group)
    killed_s = time.monotonic()
    try:
        apache.until_elected(group, dead)
        elected_s = time.monotonic()
        go_on()
    finally:
        dead.spawn()
        dead.ready()
    apache.until_in_sync()
    return Kill(group, killed_s, elected_s, time.monotonic())
