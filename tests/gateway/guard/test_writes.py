"""Each command of a node writes, as `gateway.guard.writes` or a declaration says, or is known to be one that reads."""

from __future__ import annotations

from typing import Final

from gateway.node.use_cases import all_needs, all_writes

READING: Final = ("Query", "List", "Await", "Find", "Count", "View", "Search", "Check", "Peek")
"""Beginnings of the names of commands that only read."""
WRITING_NOTHING: Final = {
    "domain.access": {"Reauthenticate"},
    "domain.admin.broker": {"ChangeNodePolicy"},  # until the next start
    "domain.admin.client": {"ConsumeDirectly"},
    "domain.admin.data_topic": {"JoinDataTopic", "LeaveDataTopic"},
    "domain.admin.lite": {"DispatchLite"},
    "domain.client": {"ClientAnswered", "SendReply", "Leave", "LockQueues"},
    "domain.command": {"Unwatch", "Watch", "FollowTopic"},
    "domain.nameserver": {"DropRoute", "RegisterBroker", "RegisterPage", "RenewBroker", "SetWritable", "UnregisterBroker"},
    "domain.topic.lite": {"SuspendLite", "SyncSubscription"},
}
"""Module -> commands of its that change memory only, or nothing."""
NOW_AND_THEN: Final = {
    "domain.admin.oscore": {"HoldOscoreContext", "ReserveOscoreRun"},
    "domain.client": {"Heartbeat"},
    "domain.command": {"Disconnected", "Receive"},
    "domain.topic.lite": {"ReceiveLite"},
}
"""Those that may write what another command of their sender has asked for, or make a group. What they write is charged; they
are never refused."""
OTHER_LOGS: Final = ("domain.controller", "domain.replication")
"""Modules of commands between nodes, or to controllers, who have a log of their own."""
MESSAGES: Final = {"Send", "SendOnce", "SendRetry"}


def test_every_command_counts_in_the_rates_or_writes_nothing() -> None:
    needs, writes = all_needs(), all_writes()
    listed = {(module, name) for table in (WRITING_NOTHING, NOW_AND_THEN) for module, names in table.items() for name in names}
    unknown: list[str] = []
    seen: set[tuple[str, str]] = set()
    for kind in {*needs.table, *needs.silent} - writes.setting - writes.leaving - writes.settling - writes.carrying:
        module, name = kind.__module__, kind.__name__
        found = {(each, name) for each, _ in listed if module.startswith(each)} & listed
        seen |= found
        if not (found or name.startswith(READING) or name in MESSAGES or module.startswith(OTHER_LOGS)):
            unknown.append(f"{module}.{name}")
    assert unknown == []
    assert listed - seen == set(), "not a command any more"


def test_what_is_refused_or_written_later_is_of_those_that_write() -> None:
    writes = all_writes()
    assert writes.refusable <= writes.settling
    assert writes.later <= writes.setting | writes.leaving
    assert not writes.setting & (writes.leaving | writes.settling)
