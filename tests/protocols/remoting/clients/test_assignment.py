"""Assignment of queues by the server: every queue has its members, and all brokers give the same answer."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.nameserver.route import TopicQueues
from domain.topic.topic import PERM_READ, PERM_WRITE
from protocols.remoting.clients.assignment import ANY_QUEUE, AssignmentRequest, Queue, assign, readable, share, size

STRATEGIES = st.sampled_from(("AVG", "AVG_BY_CIRCLE"))
BROKERS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9), min_size=1).map(lambda found: sorted(found.items()))
MEMBERS = st.lists(st.sampled_from("mnopqr"), min_size=1, unique=True)


def request(client_id: str, strategy: str = "AVG", broadcasting: bool = False) -> AssignmentRequest:
    return AssignmentRequest(client_id, "t", strategy, broadcasting)


def everything(brokers: list[Queue]) -> list[Queue]:
    """All queues of the route, by broker, then by queue id."""
    return [(broker, queue_id) for broker, queues in brokers for queue_id in range(queues)]


@given(BROKERS, MEMBERS, STRATEGIES)
def test_every_queue_that_is_pulled_from_has_one_member(brokers: list[Queue], members: list[str], strategy: str) -> None:
    found = {member: assign(request(member, strategy), "PULL", 0, members, brokers) for member in members}
    shares = [queues or [] for queues in found.values()]
    assert sorted(queue for queues in shares for queue in queues) == everything(brokers)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(0, 40), st.integers(1, 12))
def test_a_share_is_one_range_or_every_nth_queue(queues: int, members: int) -> None:
    in_turn = [list(share(queues, members, at, circle=True)) for at in range(members)]
    assert in_turn == [[queue for queue in range(queues) if queue % members == at] for at in range(members)]
    ranges = [list(share(queues, members, at, circle=False)) for at in range(members)]
    assert [queue for each in ranges for queue in each] == list(range(queues))


@pytest.mark.parametrize(("at", "expected"), [(0, [0, 1, 2]), (1, [3, 4, 5]), (2, [6, 7]), (3, [8, 9])])
def test_the_first_members_have_one_queue_more(at: int, expected: list[int]) -> None:
    assert list(share(10, 4, at, circle=False)) == expected


@given(BROKERS, MEMBERS, STRATEGIES)
def test_the_order_in_which_members_are_known_changes_nothing(brokers: list[Queue], members: list[str], strategy: str) -> None:
    asked = request(members[0], strategy)
    assert assign(asked, "PULL", 0, members, brokers) == assign(asked, "PULL", 0, members[::-1], brokers)


@given(BROKERS, MEMBERS, STRATEGIES, st.integers(1, 5))
def test_pop_shares_every_queue_among_as_many_members_as_asked(
    brokers: list[Queue], members: list[str], strategy: str, shared: int
) -> None:
    counts: Counter[Queue] = Counter()
    for member in members:
        found = assign(request(member, strategy), "POP", shared, members, brokers)
        assert found is not None
        assert len(found) == len(set(found))
        counts.update(found)
    if shared >= len(members) - 1:
        assert counts == {(broker, ANY_QUEUE): len(members) for broker, _ in brokers}
    elif len(members) <= size(brokers):
        assert counts == dict.fromkeys(everything(brokers), shared + 1)
    else:
        assert set(counts) == set(everything(brokers))
        assert counts.total() == len(members)


def test_pop_without_sharing_gives_each_member_all_queues() -> None:
    brokers = [("a", 4), ("b", 2)]
    assert assign(request("m"), "POP", 0, ["m", "n"], brokers) == [("a", ANY_QUEUE), ("b", ANY_QUEUE)]


@pytest.mark.parametrize("mode", ["PULL", "POP"])
def test_broadcasting_gives_each_member_every_queue(mode: str) -> None:
    brokers = [("a", 2), ("b", 1)]
    assert assign(request("m", broadcasting=True), mode, 1, ["m", "n"], brokers) == [("a", 0), ("a", 1), ("b", 0)]


def test_a_client_that_is_no_member_keeps_what_it_has() -> None:
    assert assign(request("x"), "PULL", 0, ["m"], [("a", 4)]) is None


@pytest.mark.parametrize(("mode", "shared"), [("PULL", 0), ("POP", 1)])
def test_a_topic_without_queues_has_none_to_assign(mode: str, shared: int) -> None:
    assert assign(request("m"), mode, shared, ["m", "n", "o"], []) == []


def test_only_brokers_that_can_be_read_count() -> None:
    route = [
        TopicQueues("c", 4, 8, PERM_READ | PERM_WRITE), TopicQueues("b", 8, 8, PERM_WRITE),
        TopicQueues("d", 0, 8, PERM_READ | PERM_WRITE), TopicQueues("a", 2, 0, PERM_READ),
    ]  # fmt: skip
    assert readable(route) == [("a", 2), ("c", 4)]
