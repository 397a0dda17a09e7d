"""Groups with thousands of members: what one member does costs the same however many others there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from domain.client.membership import Heartbeat, Leave, MembersChanged, Membership, Subscription
from domain.command import Disconnected
from domain.turn import WALKS_NS
from domain.walk import STEP_NS
from gateway.usecase.membership.group_members import TopicSubscriptions
from gateway.usecase.membership.members import SILENCE_NS, SWEEP_NS
from tests.gateway.usecase.bench import Bench
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.instructions import instructions
from tests.turns import most_in_a_turn

STEPS = WALKS_NS // STEP_NS


def beat(client: str, group: str = "g", version: int = 1) -> Heartbeat:
    return Heartbeat(
        1,
        client,
        producers=[f"p-{client}"],
        consumers=[Membership(group, subscriptions=[Subscription("T", "*", "TAG", version)])],
    )


def crowd(bench: Bench, count: int, group: Callable[[int], str] = lambda _: "g") -> list[EventRecorder]:
    found = [EventRecorder() for _ in range(count)]
    for at, recorder in enumerate(found):
        bench.handler.handle(recorder.connection, beat(f"c{at}", group(at)))
    bench.clock.run_for(2_000)
    return found


def test_changes_of_a_group_are_told_to_its_members_in_shares_and_several_at_once(bench: Bench) -> None:
    members = crowd(bench, 1_000)
    for each in members:
        each.take()
    newcomers = [EventRecorder() for _ in range(10)]
    for at, each in enumerate(newcomers):
        bench.handler.handle(each.connection, beat(f"n{at}"))

    def told() -> int:
        return sum(isinstance(event, MembersChanged) for each in members for event in each.recorded)

    assert told() <= STEPS
    assert most_in_a_turn(bench.clock, told, 2_000) <= STEPS
    bench.clock.run_for(100)
    assert told() == 2_000, "once for the first change, once for all that came while that was told"
    assert all(any(isinstance(event, MembersChanged) for event in each.recorded) for each in newcomers)


@pytest.mark.parametrize("one_group", [True, False])
def test_what_a_member_does_costs_the_same_however_many_there_are(bench: Bench, one_group: bool) -> None:
    registry = bench.handler.registry
    mqtt, alone, leaver = EventRecorder("mqtt"), EventRecorder(), EventRecorder()

    def of_mqtt() -> None:
        registry.set_memberships(mqtt.connection, "m", "", [Membership("shared", "CONSUME_POP")])
        registry.set_memberships(mqtt.connection, "m", "", [])

    def lost() -> None:
        bench.handler.handle(alone.connection, beat("alone", "other"))
        bench.handler.handle(alone.connection, Disconnected("lost"))
        alone.connection.end()

    def left() -> None:
        bench.handler.handle(leaver.connection, beat("leaver", "other"))
        bench.handler.handle(leaver.connection, Leave(1, "leaver", "", ""))

    def again() -> None:
        bench.handler.handle(leaver.connection, beat("c1", "g" if one_group else "g1", 1))

    acts: list[Callable[[], object]] = [of_mqtt, left, again, lambda: registry.subscription("g", "T"), lost]
    costs: list[list[int]] = []
    have = 0
    for count in (20, 700):
        members = [EventRecorder() for _ in range(have, count)]
        for at, recorder in enumerate(members, have):
            bench.handler.handle(recorder.connection, beat(f"c{at}", "g" if one_group else f"g{at}"))
        bench.clock.run_for(3_000)
        have = count
        for act in acts:
            act()  # what is made once
        found: list[int] = []
        alone = EventRecorder()
        for act in acts:
            bench.clock.run_for(1_000)
            found.append(instructions(act))
        costs.append(found)
    assert all(many <= few * 1.1 for few, many in zip(*costs, strict=True)), costs


def test_silent_members_are_looked_for_in_shares(bench: Bench) -> None:
    crowd(bench, 3_000)
    registry = bench.handler.registry
    bench.clock.run_until(lambda: len(registry.members("g")) < 3_000, (SILENCE_NS + 2 * SWEEP_NS) // 1_000_000)
    assert most_in_a_turn(bench.clock, lambda: len(registry.members("g")), 0) < 3_000
    assert registry.groups() == []


def test_the_newest_subscription_is_known_after_any_changes() -> None:
    found = TopicSubscriptions()
    versions: dict[str, int] = {}
    for at in range(2_000):
        client = f"c{at * 7 % 13}"
        if at % 5 == 4 and len(versions) > 1 and client in versions:
            del versions[client]
            assert not found.remove(client)
        else:
            versions[client] = at * 31 % 17
            found.put(client, Subscription("T", version=versions[client]))
        assert found.newest().version == max(versions.values())


def test_heartbeats_with_one_subscription_do_not_add_up() -> None:
    """A gRPC client's session gives the same object each time."""
    found, mine, next_one = TopicSubscriptions(), Subscription("T", version=3), Subscription("T", version=4)
    for _ in range(100):
        found.put("c", mine)
    assert len(found._order._heap) == 1
    for _ in range(100):
        found.put("c", mine)
        found.put("c", next_one)
        assert found.newest() is next_one
