"""The next step of an operator: what a command ends with."""

from __future__ import annotations

from domain.controller.group import StoreGroup


def next_step(group: StoreGroup) -> str:
    """What is still to be done about a store group, one sentence; that nothing is, when it serves at full strength."""
    name, members, least = group.name, len(group.members), group.min_in_sync
    if not group.leader:
        return f"next: nobody leads {name}; headgate cluster status says whom it waits for"
    lacking = ", ".join(map(str, group.lacking))
    if members < least:
        wait = f"wait until replica {lacking} is in sync" if lacking else "add a replica"
        return (
            f"next: sends above flushed are refused until {least} replicas of {name} are in sync ({members} now): {wait} "
            f"(headgate cluster repair {name}), or let them go on with fewer copies: headgate cluster set {name} "
            f"--min-in-sync {members}"
        )
    if lacking:
        return f"next: headgate cluster repair {name} waits until replica {lacking} is in sync; sends go on meanwhile"
    return f"nothing more is to be done: all replicas of {name} are in sync, and clients and gateways find the one that leads"
