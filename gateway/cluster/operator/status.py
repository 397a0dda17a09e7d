"""Report of `headgate cluster status`: life, leaders and lags of controllers and store groups, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from domain.admin.text_table import aligned
from domain.controller.answer import GroupRefusal
from domain.controller.gateway_search import GatewaySearch
from domain.controller.group import UNKNOWN, StoreGroup, StoreReplica
from domain.controller.health import Fitness
from domain.controller.request import ReplicaHeard
from gateway.cluster.operator.controllers import ControllerSeen
from protocols.remoting.controller import group_form
from protocols.remoting.controller.asking import Heard

ALL_WELL: Final = 0
SOMETHING_LACKS: Final = 1
INCARNATION_SHOWN: Final = 12
"""Characters of an incarnation in the table."""
_CONTROLLERS: Final = ("controller", "life", "role", "term", "")
REPLICA_TITLES: Final = (
    "replica",
    "address",
    "life",
    "role",
    "in sync",
    "epoch",
    "end of log",
    "behind",
    "heard",
    "log",
    "may lead",
)


_MAY_LEAD: Final = {Fitness.FIT: "yes", Fitness.SLOW: "slow", Fitness.CLOCK_OFF: "clock off"}


def faults(controllers: Sequence[ControllerSeen], groups: Sequence[Heard]) -> list[str]:
    """Faults, a line each; empty: there are none."""
    found = [f"controller {each.address} does not answer: {each.why}" for each in controllers if each.found is None]
    for each in controllers:
        if each.found is not None and each.found.failure:
            found.append(f"controller {each.address} takes part in nothing: {each.found.failure}")
    found += _parted(controllers)
    if not groups:
        found.append("no store group has registered: its replicas are not started, or look for other controllers")
    for group, heard in groups:
        alive = {each.report.id for each in heard if each.alive}
        if group.leader and group.lacks_election([each.report for each in heard]):
            found.append(f"store group {group.name}: {GroupRefusal.FORGOTTEN.value} {group.name}")
        if not group.leader:
            found.append(f"store group {group.name}: nobody leads{_why_nobody(group, alive)}")
        elif group.leader not in alive:
            why = "" if alive.intersection(group.in_sync) else _why_nobody(group, alive)
            found.append(f"store group {group.name}: its leader, replica {group.leader}, is not heard{why}")
        elif len(group.members) < group.min_in_sync:
            found.append(
                f"store group {group.name}: {len(group.members)} in sync, at least {group.min_in_sync} wanted: sends above "
                "flushed are refused"
            )
        found += _serving(group, heard)
        found += [
            f"store group {group.name}: replica {each.report.id} is passed over: {each.standing.why}"
            for each in heard if each.standing.fitness is not Fitness.FIT
        ]  # fmt: skip
        found += _silent(group, alive)
        slow = {each.report.id for each in heard if each.standing.fitness is Fitness.SLOW}
        refuses = {each.report.id: each.word.refuses for each in heard if each.alive and each.word.refuses}
        by_leader = {
            each.replica: each.why
            for said in heard
            if said.alive and said.report.id == group.leader
            for each in said.word.left_out
        }
        for replica in group.replicas:
            if not replica.learner and not group.is_in_sync(replica) and not group.is_forgotten:
                told = by_leader.get(replica.id) if replica.id in alive else ""
                why = refuses.get(replica.id) or told or _why_out(group, replica, alive, slow)
                found.append(f"store group {group.name}: replica {replica.id} is not in sync: {why}")
    return found + _of_others(controllers)


def _serving(group: StoreGroup, heard: Iterable[ReplicaHeard]) -> Iterable[str]:
    """Faults of a leader that is not ready, and of others that serve clients beside it. Replicas of a version before do not say
    whether they do."""
    leads = f"replica {group.leader} leads in epoch {group.leader_epoch}" if group.leader else "nobody leads"
    for each in heard:
        number, word = each.report.id, each.word.serving
        serves = word.epoch > 0 and (number, word.epoch) != (group.leader, group.leader_epoch)
        if each.alive and serves:
            yield (
                f"store group {group.name}: replica {number} serves clients as the leader of epoch {word.epoch}, and {leads}: "
                "what is sent to it may be lost. It ends that within seconds, once it hears the controllers; if it does not, "
                "stop its process"
            )
        elif each.alive and number == group.leader and not word.is_ready and word.epoch != UNKNOWN:
            why = word.unready or "it does not serve clients yet, so that gateways find nobody: its log says what it waits for"
            yield f"store group {group.name}: its leader, replica {number}, is not ready: {why}"


def _silent(group: StoreGroup, alive: set[int]) -> Iterable[str]:
    """Faults of members of the SyncStateSet, and of learners, that send no heartbeats."""
    for each in group.replicas:
        if each.id in alive or each.id == group.leader:
            continue
        if group.leader and group.is_in_sync(each):
            yield (
                f"store group {group.name}: replica {each.id} is not heard, and still a member of the SyncStateSet: what all "
                "members confirm waits for it. Start it; the leader leaves it out by itself where min_in_sync allows"
            )
        elif each.learner:
            yield f"store group {group.name}: replica {each.id}, a learner, is not heard: start it, or remove it"


def _of_others(controllers: Sequence[ControllerSeen]) -> list[str]:
    """Faults of processes that are no replicas of a group: strangers that were refused, and gateways that find no leader."""
    there = [each.found for each in controllers if each.found is not None]
    refused: dict[tuple[str, str, str], int] = {}
    for one in (each for found in there for each in found.strangers):
        refused[one[:3]] = min(one.age_ms, refused.get(one[:3], one.age_ms))
    missed: dict[tuple[str, str], int] = {}
    for other in (each for found in there for each in found.gateways):
        missed[other[:2]] = min(other.age_ms, missed.get(other[:2], other.age_ms))
    searching: dict[tuple[str, str], GatewaySearch] = {}
    for word in (each for found in there for each in found.searching):
        searching[word[:2]] = max(word, searching.get(word[:2], word), key=lambda each: each.waits_ms)
    return [
        *(
            f"store group {group}: refused a process at {where or 'an unknown address'}, the last time {_ago(age_ms)}: {why}"
            for (group, where, why), age_ms in sorted(refused.items())
        ),
        *(
            f"store group {group}: gateway {name} does not reach the leader that there is now: last heard {_ago(age_ms)}. Its "
            "/readyz says why; one that is gone for good is forgotten after an hour"
            for (group, name), age_ms in sorted(missed.items())
        ),
        *(
            f"gateway {each.name} finds no leader of a store group, for {each.waits_ms // 1_000:,} s: it tries {each.seeks}, "
            f"and the last one did not take it ({each.why}). Correct gateway.store there, or the network between them"
            for _, each in sorted(searching.items())
        ),
    ]


def _ago(age_ms: int) -> str:
    return f"{age_ms // 1_000:,} s ago"


def unreached(groups: Sequence[Heard], why_not: Callable[[str], str]) -> Iterable[str]:
    """A fault for each living leader that takes no connection from here. `why_not(address)`: "": it does."""
    for group, heard in groups:
        leader = group.replica(group.leader)
        if leader is None or not any(each.alive and each.report.id == leader.id for each in heard):
            continue
        if why := why_not(leader.address):
            yield (
                f"store group {group.name}: replica {leader.id} leads, and is not reached from here at {leader.address} "
                f"({why}): gateways on this side do not find it either"
            )


def _why_nobody(group: StoreGroup, alive: set[int]) -> str:
    if group.is_forgotten:
        return f": {GroupRefusal.FORGOTTEN.value} {group.name}"
    if not group.members:
        return " yet: no replica has asked for the first election"
    gone = [str(each.id) for each in group.members if each.id not in alive]
    if group.electing > 1 and gone:
        return (
            f"; {group.electing} of {len(group.members)} members have to be alive (acks is {group.acks}): waits for replica "
            f"{' or '.join(gone)}. If they do not come back: headgate cluster recover"
        )
    other = [
        str(each.id) for each in group.members
        if (replica := group.replica(each.id)) is None or replica.incarnation != each.incarnation
    ]  # fmt: skip
    parts = [f"; waits for replica {' or '.join(gone)}"] if gone else []
    parts += [f"; replica {', '.join(other)} has lost the log that it had in the set"] if other else []
    parts += [". If none comes back: headgate cluster recover"] if len(gone) == len(group.members) else []
    return "".join(parts)


def _parted(controllers: Sequence[ControllerSeen]) -> Iterable[str]:
    """Faults of controllers that all answer here: who leads, and who does not reach whom."""
    there = [(each.address, each.found) for each in controllers if each.found is not None and not each.found.failure]
    leaders = [(address, found) for address, found in there if found.leads]
    if not leaders:
        yield "no controller leads"
    if len(leaders) > 1:
        yield f"controllers {' and '.join(address for address, _ in leaders)} both say that they lead: the network is parted"
    for address, leader in leaders:
        unheard = [other for other, found in there if found.node != leader.node and found.node not in leader.places]
        if unheard and leader.places:
            yield (
                f"controller {address} leads, and does not reach {', '.join(unheard)}, which answer here: the network between "
                "them is parted"
            )


def _why_out(group: StoreGroup, replica: StoreReplica, alive: set[int], slow: set[int]) -> str:
    if not replica.incarnation:
        return "it has an id and has never registered"
    if replica.id in alive and group.leader not in alive:
        return "there is no leader to get from what it lacks"
    if replica.id in alive & slow:
        return "it is slow, and not waited for"
    return "it gets what it lacks" if replica.id in alive else "it is not heard"


def lines(controllers: Sequence[ControllerSeen], groups: Sequence[Heard], found: Sequence[str]) -> list[str]:
    """The whole page. `found`: the faults."""
    out = aligned([_CONTROLLERS, *(_controller(each) for each in controllers)])
    for group, heard in groups:
        out += ["", headline(group)]
        out += aligned([REPLICA_TITLES, *replica_rows(group, heard)])
        out += aside_lines(group, heard)
        out += [f"note: {group.one_disk_note}"] if group.one_disk_note else []
    out += ["", *(f"! {each}" for each in found)] if found else ["", "all is well"]
    return out


def aside_lines(group: StoreGroup, heard: Iterable[ReplicaHeard]) -> list[str]:
    """What the replicas of a group keep that was set aside, a line for each."""
    return [
        f"replica {each.report.id} at {group.address(each.report.id)} keeps {_bytes(each.word.aside.size)} in "
        f"{each.word.aside.folders} folders that were set aside: headgate set-aside list DIR there"
        for each in heard
        if each.word.aside.folders
    ]


def headline(group: StoreGroup) -> str:
    """One line about a group."""
    leads = f"replica {group.leader} leads in epoch {group.leader_epoch}" if group.leader else "nobody leads"
    return (
        f"store group {group.name} of cluster {group.cluster}: {leads}; {len(group.members)} of {group.strength} in sync, "
        f"at least {group.min_in_sync} wanted for sends above flushed{_confirming(group)}"
    )


def _confirming(group: StoreGroup) -> str:
    """How many members confirm, where an operator has set it; "": all do."""
    if not group.acks and not group.wanted_acks:
        return ""
    count = str(group.acks) if group.acks else "all"
    soon = "" if group.acks == group.asked_acks else f", to be {group.asked_acks or 'all'}"
    return f"; {count} of them confirm (acks{soon}), an election needs {group.electing}"


def _controller(each: ControllerSeen) -> tuple[str, ...]:
    if each.found is None:
        return each.address, "silent", "", "", each.why
    found = each.found
    if found.failure:
        role = "out"
    elif not found.term and not found.leader:
        role = "waits"
    else:
        role = "leads" if found.leads else ("learns" if found.node in found.learners else "follows")
    note = found.failure or ("" if role != "waits" else "for all controllers to answer, or to be taken in")
    return each.address, "answers", role, str(found.term), note


def replica_rows(group: StoreGroup, heard: Sequence[ReplicaHeard]) -> list[tuple[str, ...]]:
    """A row for each replica."""
    words = {each.report.id: each for each in heard}
    end = end_of_leader(group, heard)
    return [_replica(group, each, words.get(each.id), end) for each in group.replicas]


def end_of_leader(group: StoreGroup, heard: Iterable[ReplicaHeard]) -> int:
    """End of the leader's log by its last heartbeat; UNKNOWN."""
    return next((each.report.position for each in heard if each.report.id == group.leader), UNKNOWN)


def _replica(group: StoreGroup, replica: StoreReplica, last: ReplicaHeard | None, end: int) -> tuple[str, ...]:
    fresh = last is not None and last.report.incarnation == replica.incarnation
    epoch = last.report.epoch if last is not None and fresh else replica.epoch
    position = last.report.position if last is not None and fresh else replica.position
    role = "leads" if replica.id == group.leader else ("learns" if replica.learner else "follows")
    if last is not None and last.word.remote.place and replica.learner:
        role = f"remote: {last.word.remote.place}"
    return (
        str(replica.id),
        replica.address,
        "alive" if last is not None and last.alive else "dead",
        role,
        "yes" if group.is_in_sync(replica) else "no",
        _number(epoch),
        _number(position),
        _bytes(max(end - position, 0)) if UNKNOWN not in (end, position) else "?",
        "never" if last is None else (f"{last.age_ms:,} ms ago" if last.age_ms >= 0 else "connection lost"),
        replica.incarnation[:INCARNATION_SHOWN] or "none",
        "?" if last is None else _MAY_LEAD[last.standing.fitness],
    )


def _number(value: int) -> str:
    return "?" if value == UNKNOWN else f"{value:,}"


def _bytes(value: int) -> str:
    return f"{value:,} bytes" if value < 10_000_000 else f"{value / 1_000_000:,.0f} MB"


def as_json(controllers: Sequence[ControllerSeen], groups: Sequence[Heard], faults: Sequence[str]) -> dict[str, object]:
    """The same as JSON: groups as in request 30022."""
    states = [
        {
            "address": each.address,
            "answers": each.found is not None,
            "why": each.why,
            **(
                {}
                if each.found is None
                else {"leads": each.found.leads, "term": each.found.term, "failure": each.found.failure}
            ),
        }
        for each in controllers
    ]
    found = [group_form.write(group, heard) for group, heard in groups]
    return {"controllers": states, "groups": found, "faults": list(faults)}
