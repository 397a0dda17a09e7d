"""Waiting requests are checked again when rights change, a bounded number in each turn."""

from __future__ import annotations

from domain.admin.topic import PutTopic
from domain.command import AwaitMessages, AwaitSettled, Command, Watch
from domain.errors import ErrorCode, Failure
from domain.event import LeasesEnded, MessagesWaiting, Refused, WatchedMessages, WatchStarted
from domain.message.message import LOCAL_HOST, Message
from domain.message.receipt import Receipt
from domain.message.record import encode
from domain.topic.lite import ReceiveLite
from domain.topic.topic import Topic
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.consume.lease_watch import LeaseWatches
from gateway.usecase.consume.watch import Watches
from gateway.usecase.tools.inspect import Inspecting
from gateway.usecase.waiting.long_polls import REVIEWED_PER_TURN
from tests.connection_driver import RecordingDriver
from tests.gateway.usecase.bench import Bench, bench
from tests.gateway.usecase.event_recorder import EventRecorder
from tests.gateway.usecase.lite import stage as lite_stage
from tests.gateway.usecase.lite.stage import place
from tests.gateway.usecase.waiting.test_long_polls import Stage
from tests.simulation.kit.clock import VirtualClock

__all__ = ["bench", "place"]

GONE = Failure(ErrorCode.NOT_ALLOWED, "no more")


def test_parked_requests_that_are_not_granted_any_more_are_refused_and_no_longer_parked() -> None:
    stage = Stage()
    count = 2 * REVIEWED_PER_TURN
    for number in range(count):
        assert stage.park(number, f"t{number % 7}")
    assert stage.park(count, "t0", group="line")
    stage.long_polls.review(lambda _, command: GONE if command.ticket % 2 else None)  # type: ignore[attr-defined]
    assert 0 < sum(bool(driver.recorded) for driver in stage.drivers) < REVIEWED_PER_TURN, "half of those that were looked at"
    stage.clock.run_for(10)
    refused = [[Refused(number, GONE)] if number % 2 else [] for number in range(count + 1)]
    assert [driver.take() for driver in stage.drivers] == refused
    assert len(stage.long_polls) == REVIEWED_PER_TURN + 1


def test_a_message_that_comes_before_the_turn_of_a_parked_call_is_not_given_to_it() -> None:
    stage = Stage()
    for number in range(REVIEWED_PER_TURN):
        assert stage.park(number, "other")
    last = REVIEWED_PER_TURN
    for number in (last, last + 1):
        assert stage.park(number, "t")
    stage.long_polls.review(lambda _, command: GONE if command.ticket == last else None)  # type: ignore[attr-defined]
    assert stage.drivers[last].recorded == [], "its turn has not come"
    stage.stock.messages = 1
    stage.long_polls.wake("t", 0)
    assert stage.drivers[last].take() == [Refused(last, GONE)]
    assert stage.drivers[last + 1].take() == [MessagesWaiting(last + 1, True)]


def test_a_wait_for_leases_that_is_not_granted_any_more_is_refused_and_told_nothing_more() -> None:
    clock = VirtualClock()
    watches = LeaseWatches(clock)
    recorders = {group: EventRecorder() for group in ("g", "h")}
    for group, recorder in recorders.items():
        receipt = Receipt(0, clock.wall_ms(), 3_000, 0, 0, "b", 0, 0)
        watches.verbs[AwaitSettled](recorder.connection, AwaitSettled(group, "me", group, "t", [receipt], 5_000))
    watches.review(lambda _, command: GONE if command.group == "g" else None)  # type: ignore[attr-defined]
    clock.run_for(4_000)
    assert recorders["g"].take() == [Refused("g", GONE)]
    assert recorders["h"].take() == [LeasesEnded("h", 1)]
    assert watches.watched == 0


def test_who_has_left_meanwhile_is_not_asked_about() -> None:
    stage = Stage(2)
    asked: list[Command] = []

    def check(_connection: ClientConnection, command: Command) -> Failure | None:
        asked.append(command)
        stage.drivers[1].connection.end()
        return None

    stage.long_polls.review(check)
    assert len(asked) == 1
    assert (stage.drivers[0].take(), len(stage.long_polls)) == ([], 1)


def test_a_watch_that_is_not_granted_any_more_is_refused_and_hears_nothing_more() -> None:
    clock = VirtualClock()
    watches = Watches(clock)
    driver = RecordingDriver()
    connection = ClientConnection("coap", driver, shared=True)
    for ticket in ("a", "b"):
        watches.watch(connection, Watch(ticket, f"{ticket}/#"))
    watches.review(lambda _, command: GONE if command.ticket == "a" else None)  # type: ignore[attr-defined]
    for topic in ("a", "b"):
        watches.arrived(topic, 0, [encode(Message(topic, b"x", b""), 0, 0, 0, LOCAL_HOST)])
    clock.run_for(1)
    assert [type(event) for event in driver.recorded] == [WatchStarted, WatchStarted, Refused, WatchedMessages]
    refused, recorded = driver.recorded[2:]
    assert isinstance(refused, Refused)
    assert isinstance(recorded, WatchedMessages)
    assert (refused.ticket, refused.failure, recorded.ticket) == ("a", GONE, "b")
    assert watches.watching == 1


def test_a_notification_poll_that_is_not_granted_any_more_is_refused(bench: Bench) -> None:
    handler = bench.handler
    store = bench.store
    inspecting = Inspecting(
        store.log, store.outlook, store.metadata, handler.topics, handler.rights, bench.clock, store.figures
    )
    bench.handler.add(inspecting)
    bench.ask(PutTopic(1, Topic("T", 2, 2)))
    recorder, other = EventRecorder(), EventRecorder()
    assert bench.ask(AwaitMessages(1, "g", "T", wait_ms=5_000), recorder) == []
    assert bench.ask(AwaitMessages(2, "h", "T", wait_ms=5_000), other) == []
    assert inspecting.review in bench.handler.reviews
    inspecting.review(lambda _, command: GONE if command.group == "g" else None)  # type: ignore[attr-defined]
    assert recorder.take() == [Refused(1, GONE)]
    assert recorder.connection.on_close == []
    bench.send("T", "first")
    assert (recorder.take(), other.take()) == ([], [MessagesWaiting(2, True)])


def test_a_poll_of_lite_topics_that_is_not_granted_any_more_is_refused_and_takes_nothing(place: Bench) -> None:
    recorder = EventRecorder()
    lite_stage.subscribe(place, recorder, "c", "a")
    assert place.ask(lite_stage.poll(wait_ms=5_000), recorder) == []
    for review in place.handler.reviews:
        review(lambda _, command: GONE if isinstance(command, ReceiveLite) else None)
    assert recorder.take() == [Refused(7, GONE)]
    lite_stage.send(place, "a", "1")
    assert recorder.take() == []
    assert lite_stage.notified(place.ask(lite_stage.poll(), recorder)) == ["1"]
