"""Consumers with filters: tags, SQL92, subscriptions of the group and expiry, over the real store."""

from __future__ import annotations

import pytest

from domain.client.membership import Heartbeat, Membership, Subscription
from domain.command import Pull, QueryOffset, Receive, Send
from domain.errors import ErrorCode
from domain.event import Event, Offset, Pulled, Received
from domain.filter import tag
from domain.filter.expression import compiled
from domain.filter.filter import SQL92, TAG, Filter
from domain.filter.sql import SqlFilter
from domain.message import property as properties
from domain.message.message import Message
from domain.message.record import Record
from gateway.usecase.membership.members import INHERITED_NS
from tests.gateway.usecase.bench import Bench, bodies, code
from tests.gateway.usecase.event_recorder import EventRecorder, only


def sql(text: str) -> Filter:
    found = compiled(SQL92, text)
    assert isinstance(found, SqlFilter), found
    return found


def send(bench: Bench, body: str, padding: str = "", **pairs: str) -> None:
    stored = properties.encode(pairs.items())
    assert bench.ask(Send(1, [Message("t", (body + padding).encode(), stored, queue_id=0)]))


def receive(bench: Bench, wanted: Filter | None, *, limit: int = 32, wait_ms: int = 0, ordered: bool = False) -> list[str]:
    command = Receive(1, "g", "t", limit, 10_000, wait_ms, 0, wanted, from_first=True, ordered=ordered)
    event = only(Received, bench.ask(command, ms=wait_ms + 100))
    return [Record(leased.record).body.decode().rstrip(".") for leased in event.messages]


def position(bench: Bench) -> int:
    event = only(Offset, bench.ask(QueryOffset(1, "g", "t", 0)))
    return event.offset


def pull(bench: Bench, offset: int, wanted: Filter | None, limit: int = 32, max_bytes: int = 0) -> Pulled:
    return only(Pulled, bench.ask(Pull(1, "g", "t", 0, offset, limit, max_bytes, filter=wanted)))


def colours(bench: Bench) -> None:
    for at in range(12):
        send(bench, f"m{at:02}", color=("red", "green", "blue")[at % 3], weight=str(at))


def test_receive_leases_what_matches_and_settles_the_rest(bench: Bench) -> None:
    colours(bench)
    wanted = sql("color = 'red' OR weight > 10")
    assert receive(bench, wanted) == ["m00", "m03", "m06", "m09", "m11"]
    assert receive(bench, wanted) == []
    assert position(bench) == 0
    bench.clock.run_for(11_000)
    assert receive(bench, wanted, limit=2) == ["m00", "m03"]


def test_what_matches_nothing_is_settled_whole(bench: Bench) -> None:
    colours(bench)
    assert receive(bench, sql("size IS NOT NULL")) == []
    assert position(bench) == 12


def test_a_small_limit_goes_on_where_it_stopped(bench: Bench) -> None:
    colours(bench)
    wanted = sql("color <> 'red'")
    taken = [receive(bench, wanted, limit=3) for _ in range(3)]
    assert taken == [["m01", "m02", "m04"], ["m05", "m07", "m08"], ["m10", "m11"]]


@pytest.mark.parametrize("wanted", [sql("color = 'red'"), tag.parse("red")], ids=["sql", "tag"])
@pytest.mark.parametrize("wait_ms", [0, 2_000])
def test_a_needle_behind_more_than_one_call_may_look_at(bench: Bench, wanted: Filter, wait_ms: int) -> None:
    bench.ask(Send(1, [Message("t", b"hay", queue_id=0) for _ in range(10_000)]), ms=200)
    send(bench, "needle", color="red", TAGS="red")
    assert receive(bench, wanted, limit=1, wait_ms=wait_ms) == ["needle"]
    found: list[str] = []
    offset = calls = 0
    while not found:
        event = pull(bench, offset, wanted)
        assert event.next_offset > offset
        offset, found, calls = event.next_offset, bodies(event), calls + 1
    assert (found, offset) == (["needle"], 10_001)
    assert calls <= 4 * wanted.cost, "one looks at 4,096 rows, or at fewer with a dear filter"


def test_large_messages_bound_what_one_call_looks_at(bench: Bench) -> None:
    for at in range(12):
        send(bench, f"m{at:02}", padding="." * 1_000_000, color="red" if at in (3, 11) else "blue")
    assert receive(bench, sql("color = 'red'")) == ["m03"]
    assert receive(bench, sql("color = 'red'")) == ["m11"]
    first = pull(bench, 0, sql("color = 'red'"))
    assert [body.rstrip(".") for body in bodies(first)] == ["m03"]
    assert 4 <= first.next_offset < 11


def test_pull_counts_only_what_matches_against_its_bounds(bench: Bench) -> None:
    colours(bench)
    wanted = sql("color = 'blue'")
    first = pull(bench, 0, wanted, limit=2)
    assert (bodies(first), first.status) == (["m02", "m05"], "FOUND")
    rest = pull(bench, first.next_offset, wanted, limit=2)
    assert (bodies(rest), rest.next_offset) == (["m08", "m11"], 12)
    tight = pull(bench, 0, wanted, max_bytes=1)
    assert (bodies(tight), tight.next_offset) == (["m02"], 5)
    none = pull(bench, 0, sql("color = 'black'"))
    assert (none.status, none.next_offset) == ("NO_MATCH", 12)


def test_a_waiting_pull_sleeps_through_what_it_does_not_want(bench: Bench) -> None:
    send(bench, "first", color="blue")
    recorder = EventRecorder()
    asked = Pull(1, "g", "t", 0, 0, 32, 0, wait_ms=10_000, filter=sql("color = 'red'"))
    assert bench.ask(asked, recorder) == []
    send(bench, "second", color="green")
    assert recorder.take() == []
    send(bench, "third", color="red")
    event = only(Pulled, recorder.take())
    assert (bodies(event), event.next_offset) == (["third"], 3)


def beat(bench: Bench, recorder: EventRecorder, expression: str, kind: str = SQL92, version: int = 1) -> None:
    said = Subscription("t", expression, kind, version)
    bench.ask(Heartbeat(1, f"client-{id(recorder)}", consumers=[Membership("g", subscriptions=[said])]), recorder)


def subscribed(bench: Bench) -> list[Event]:
    return bench.ask(Pull(1, "g", "t", 0, 0, 32, 0, subscribed=True))


def test_a_pull_uses_the_subscription_that_another_connection_said(bench: Bench) -> None:
    colours(bench)
    assert code(subscribed(bench)) is ErrorCode.GROUP_OFFLINE
    first, second = EventRecorder(), EventRecorder()
    beat(bench, first, "color = 'red' AND weight < 5")
    event = only(Pulled, subscribed(bench))
    assert bodies(event) == ["m00", "m03"]
    beat(bench, second, "weight = 7", version=2)
    event = only(Pulled, subscribed(bench))
    assert bodies(event) == ["m07"]
    beat(bench, second, "weight =", version=3)
    assert code(subscribed(bench)) is ErrorCode.FILTER_ILLEGAL
    beat(bench, second, "*", TAG, version=4)
    event = only(Pulled, subscribed(bench))
    assert len(event.records) == 12


def test_a_new_leader_uses_what_members_told_it_before_until_they_come(bench: Bench) -> None:
    colours(bench)
    said = Subscription("t", "color = 'red' AND weight < 5", SQL92, 1)
    bench.handler.registry.inherit({("g", "t"): said, ("other", "t"): said})
    event = only(Pulled, subscribed(bench))
    assert bodies(event) == ["m00", "m03"]
    member = EventRecorder()
    beat(bench, member, "weight = 7")
    event = only(Pulled, subscribed(bench))
    assert bodies(event) == ["m07"], "a member counts more"
    member.connection.end()
    bench.clock.run_for(INHERITED_NS / 1_000_000)
    assert code(subscribed(bench)) is ErrorCode.GROUP_OFFLINE, "members have had time to come"


def test_a_parked_receive_is_answered_once(bench: Bench) -> None:
    send(bench, "first")
    assert receive(bench, None) == ["first"]
    recorders = [EventRecorder() for _ in range(2)]
    for recorder in recorders:
        assert bench.ask(Receive(1, "g", "t", 1, 60_000, 2_000, 0, from_first=True), recorder) == []
    for body in ("a", "b", "c"):
        bench.handler.handle(EventRecorder().connection, Send(1, [Message("t", body.encode(), queue_id=0)]))
    bench.clock.run_for(10_000)
    recorded = [recorder.take() for recorder in recorders]
    assert [[bodies(event) for event in events if isinstance(event, Received)] for events in recorded] == [[["a"]], [["b"]]]
    assert bench.handler.receiving.waiting() == 0
    assert receive(bench, None) == ["first", "c"]


def expiring(bench: Bench, *lives_ms: int) -> None:
    now = bench.clock.wall_ms()
    for at, life in enumerate(lives_ms):
        pairs = {"HG_EXPIRE_MS": str(now + life)} if life else {}
        send(bench, f"e{at}", **pairs)


def test_expired_messages_are_settled_instead_of_delivered(bench: Bench) -> None:
    expiring(bench, 500, 0, 60_000, 500)
    bench.clock.run_for(1_000)
    assert receive(bench, None) == ["e1", "e2"]
    assert bench.handler.receiving.expired == 2
    assert position(bench) == 1


def test_a_pull_passes_over_expired_messages(bench: Bench) -> None:
    expiring(bench, 500, 0, 60_000, 500)
    assert bodies(pull(bench, 0, None)) == ["e0", "e1", "e2", "e3"]
    bench.clock.run_for(1_000)
    event = pull(bench, 0, None)
    assert (bodies(event), event.status, event.next_offset) == (["e1", "e2"], "FOUND", 4)
    event = pull(bench, 3, None)
    assert (bodies(event), event.status, event.next_offset) == ([], "NO_MATCH", 4)
    assert bench.handler.pulling.expired == 3
    whole = only(Pulled, bench.ask(Pull(1, "g", "t", 0, 0, 32, 0, whole=True)))
    assert bodies(whole) == ["e0", "e1", "e2", "e3"]


def test_a_pull_waits_when_all_that_is_left_has_expired(bench: Bench) -> None:
    expiring(bench, 100, 100)
    bench.clock.run_for(500)
    recorder = EventRecorder()
    assert bench.ask(Pull(1, "g", "t", 0, 0, 32, 0, wait_ms=5_000), recorder) == []
    send(bench, "new")
    event = only(Pulled, recorder.take())
    assert bodies(event) == ["new"]


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("wait_ms", [0, 1_000])
def test_what_stands_behind_expired_messages_is_delivered_at_once(bench: Bench, ordered: bool, wait_ms: int) -> None:
    expiring(bench, *[100] * 40, 0)
    bench.clock.run_for(1_000)
    assert receive(bench, None, limit=4, wait_ms=wait_ms, ordered=ordered) == ["e40"]
    assert bench.handler.receiving.expired == 40
    assert position(bench) == 40


def test_a_message_that_expires_under_its_lease_does_not_come_again(bench: Bench) -> None:
    expiring(bench, 5_000)
    assert receive(bench, None) == ["e0"]
    bench.clock.run_for(11_000)
    assert receive(bench, None) == []
    assert (bench.handler.receiving.expired, position(bench)) == (1, 1)


@pytest.mark.parametrize("text", ["soon", "9" * 5_000, "-1", "1.5"])
def test_an_expiry_that_is_no_instant_never_comes(bench: Bench, text: str) -> None:
    send(bench, "odd", HG_EXPIRE_MS=text)
    assert receive(bench, None) == ["odd"]
