"""Group commit: one write a turn, one sync at a time, failures of both, and callers that wait for a durable position."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ErrorCode, Failure
from domain.message.message import Message, Placed
from domain.store.store_event import StoreEvent, StoreEventKind
from domain.store.store_request import KeyQuery
from domain.topic.topic import Durability
from store.events import StoreEvents
from store.log.commit import SyncWaiters
from store.settings import StoreSettings
from tests.simulation.kit.clock import VirtualClock
from tests.store.driver import Driver, code_of, sure


def message(topic: str = "t", size: int = 10) -> Message:
    return Message(topic, b"x" * size, queue_id=0)


def test_all_appends_of_a_turn_are_one_write_and_one_sync() -> None:
    driver = Driver.with_topics("t")
    answers: list[list[Placed] | Failure] = []
    writes, syncs = len(driver.disk.writes), driver.disk.syncs
    for _ in range(50):
        driver.store.log.append([message()], answers.append)
    driver.clock.run_for(10)
    assert len(answers) == 50
    assert (len(driver.disk.writes) - writes, driver.disk.syncs - syncs) == (1, 1)


def test_appends_during_a_sync_share_the_next_sync() -> None:
    driver = Driver.with_topics("t")
    driver.disk.sync_ms = 10
    answers: list[list[Placed] | Failure] = []
    syncs = driver.disk.syncs
    for _ in range(10):
        driver.store.log.append([message()], answers.append)
        driver.clock.run_for(1)
    driver.clock.run_for(30)
    assert [sure(result)[0].queue_offset for result in answers] == list(range(10))
    assert driver.disk.syncs - syncs == 2


def test_appends_in_the_turn_in_which_each_sync_ends_are_in_the_next_one() -> None:
    """A sync that ends between an append and the end of its turn must not begin the next one without the append."""
    driver = Driver.with_topics("t")
    answers: list[list[Placed] | Failure] = []
    driver.disk.hold_syncs = True
    driver.store.log.append([message()], answers.append)
    driver.clock.run_turn()
    for number in range(20):
        syncs, written = driver.disk.syncs, len(driver.disk.writes)
        driver.disk.release()
        driver.disk.hold_syncs = True
        driver.store.log.append([message()], answers.append)
        driver.clock.run_turn()
        assert len(answers) == number + 1
        assert (driver.disk.syncs - syncs, len(driver.disk.writes) - written) == (1, 1)


def test_page_answers_at_once_and_is_flushed_within_half_a_second() -> None:
    driver = Driver()
    driver.topic("p", Durability.PAGE)
    answers: list[list[Placed] | Failure] = []
    driver.clock.run_for(1_000)
    syncs = driver.disk.syncs
    driver.store.log.append([message("p")], answers.append)
    driver.clock.run_turn()
    assert len(answers) == 1
    assert driver.store.figures()["log_flush_behind_bytes"] > 0
    driver.clock.run_for(502)
    assert driver.disk.syncs == syncs + 1
    assert driver.store.figures()["log_flush_behind_bytes"] == 0


def test_page_appends_during_a_sync_are_flushed_within_half_a_second() -> None:
    driver = Driver.with_topics("t")
    driver.topic("p", Durability.PAGE)
    driver.clock.run_for(1_000)
    driver.disk.sync_ms = 10
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([message("t")], answers.append)
    driver.clock.run_for(5)
    driver.store.log.append([message("p")], answers.append)
    driver.clock.run_for(510)
    assert len(answers) == 2
    assert driver.store.figures()["log_flush_behind_bytes"] == 0


def _changed_during_a_sync() -> Driver:
    driver = Driver()
    driver.topic("p", Durability.PAGE)
    driver.clock.run_for(1_000)
    driver.send("p", b"first")
    driver.disk.hold_syncs = True
    driver.clock.run_for(600)
    driver.store.positions.commit("g", [("p", 0, 1)], None)
    driver.clock.run_turn()
    return driver


def test_appends_without_a_callback_are_written_when_the_sync_has_ended() -> None:
    driver = _changed_during_a_sync()
    driver.disk.release()
    driver.clock.run_for(10)
    assert driver.store.figures()["log_waiting_bytes"] == 0


def test_an_append_behind_one_without_a_callback_is_answered() -> None:
    driver = _changed_during_a_sync()
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([message("p")], answers.append)
    driver.clock.run_turn()
    assert len(answers) == 1, "the write is all that a page topic waits for"
    driver.disk.release()
    driver.clock.run_for(10)
    driver.store.log.append([message("p")], answers.append)
    driver.clock.run_turn()
    assert len(answers) == 2


def test_a_queue_keeps_its_order_when_its_topic_changes_from_flushed_to_page() -> None:
    driver = Driver.with_topics("t")
    driver.disk.sync_ms = 100
    order: list[str] = []
    driver.store.log.append([message()], lambda result: order.append("flushed"))
    driver.topic("t", Durability.PAGE)
    driver.store.log.append([message()], lambda result: order.append("page"))
    driver.clock.run_turn()
    assert "page" not in order or order[0] == "flushed"
    driver.clock.run_for(500)
    assert order == ["flushed", "page"]


def test_a_slow_flush_is_answered_with_a_timeout_and_succeeds_later() -> None:
    driver = Driver.with_topics("t")
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    driver.store.log.append([message()], answers.append)
    driver.clock.run_for(7_000)
    assert code_of(answers[0]) is ErrorCode.FLUSH_TIMEOUT
    assert driver.bounds("t") == (0, 0)
    driver.disk.release()
    driver.clock.run_for(10)
    assert driver.bounds("t") == (0, 1)
    assert len(answers) == 1


def test_a_failed_sync_fails_waiting_appends_and_is_never_repeated() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"safe")
    driver.disk.fail_syncs = True
    first = driver.append([message()])
    driver.disk.fail_syncs = False
    syncs = driver.disk.syncs
    second = driver.append([message()])
    for result in (first, second):
        assert code_of(result) is ErrorCode.STORE_UNAVAILABLE
    driver.clock.run_for(5_000)
    assert driver.disk.syncs == syncs
    assert driver.bodies("t") == [b"safe"], "reading goes on"
    assert driver.call(driver.store.positions.commit, "g", [("t", 0, 1)]).code is ErrorCode.STORE_UNAVAILABLE
    assert driver.store.figures()["log_broken"] == 1


def test_after_a_failed_sync_and_a_restart_nothing_is_built_on_pages_that_may_be_lost() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"safe")
    driver.disk.fail_syncs = True
    assert isinstance(driver.append([message()]), Failure)
    driver.disk.fail_syncs = False
    after = driver.killed()
    assert after.store.figures()["recovered_copied_bytes"] > 0
    after.send("t", b"acknowledged behind what the failed sync left")
    found = after.bodies("t")
    assert found[0] == b"safe"
    assert len(found) == 3
    assert after.powered_off().bodies("t") == found, "the copy is durable, not the pages that only looked clean"


def test_a_volume_that_is_nearly_full_takes_no_messages_but_lets_consumers_finish() -> None:
    driver = Driver.with_topics("t")
    driver.send("t", b"a")
    driver.disk.free = 0.01
    driver.clock.run_for(1_100)
    result = driver.append([message()])
    assert code_of(result) is ErrorCode.STORE_UNAVAILABLE
    assert driver.settle("g", "t", *driver.lease("g", "t").messages) == [None]
    driver.clock.run_for(5_000)
    driver.disk.free = 0.5
    driver.clock.run_for(1_100)
    assert len(driver.send("t", b"b")) == 1
    assert [event.kind for event in driver.events] == [StoreEventKind.FULL, StoreEventKind.RESUMED], "one line each"


def test_appends_beyond_the_pending_bytes_are_refused() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(pending_bytes_max=10_000))
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    for _ in range(20):
        driver.store.log.append([message(size=1_000)], answers.append)
    refused = [result for result in answers if isinstance(result, Failure)]
    assert 5 <= len(refused) <= 12
    assert {result.code for result in refused} == {ErrorCode.OVERLOADED}
    driver.disk.release()
    driver.clock.run_for(10)
    assert len(answers) == 20


def test_an_append_to_a_batch_left_open_gets_its_own_store_time() -> None:
    """A reset to a time must redeliver all that was sent after it, although a batch may have been opened long before."""
    driver = Driver.with_topics("t")
    driver.disk.hold_syncs = True
    answers: list[list[Placed] | Failure] = []
    for body in (b"syncs", b"opens", b"joins"):
        if body == b"joins":
            between_ms = driver.clock.wall_ms() + 1
            driver.clock.run_for(4_000)
        driver.store.log.append([Message("t", body, b"UNIQ_KEY\x01%b\x02" % body, queue_id=0)], answers.append)
        driver.clock.run_for(10)
    assert answers == []
    driver.disk.release()
    driver.clock.run_for(10)
    assert driver.call(driver.store.log.search, "t", 0, between_ms, False) == 2
    for after in (driver, driver.powered_off()):
        for key, earlier, later in (("opens", 1, 0), ("joins", 0, 1)):
            for begin_ms, end_ms, count in ((0, between_ms, earlier), (between_ms, between_ms + 9_000, later)):
                assert len(after.call(after.store.log.find, KeyQuery("t", key, begin_ms, end_ms, 10, 1 << 20, True))) == count


def test_segments_follow_each_other_without_holes_and_no_record_spans_two() -> None:
    driver = Driver.with_topics("t", config=StoreSettings(segment_bytes=5_000))
    for _ in range(30):
        driver.store.log.append([message(size=700)], None)
    driver.clock.run_for(20)
    driver.send("t", b"y" * 9_000)
    names = driver.disk.names("log")
    assert len(names) > 5
    assert all(len(name) == 20 for name in names)
    place = 0
    for name in names:
        assert int(name) == place
        place += len(driver.disk.files[f"log/{name}"].data)
    assert len(driver.bodies("t")) == 31
    assert len(driver.killed().bodies("t")) == 31


def raised(event: StoreEvent) -> None:
    assert event.error is not None
    raise event.error


def test_a_caller_that_waits_again_while_it_is_called_is_not_lost() -> None:
    waiters, called = SyncWaiters(StoreEvents(raised, VirtualClock())), list[int]()

    def again() -> None:
        called.append(1)
        waiters.add(200, partial(called.append, 2))

    waiters.add(100, again)
    assert waiters.synced(150)
    assert called == [1]
    assert not waiters.synced(200)
    assert called == [1, 2]


def test_nobody_is_called_after_the_log_broke() -> None:
    waiters, called = SyncWaiters(StoreEvents(raised, VirtualClock())), list[int]()
    waiters.add(100, partial(called.append, 1))
    waiters.clear()
    assert not waiters.synced(1_000)
    assert called == []


@given(st.lists(st.integers(0, 50), max_size=20), st.lists(st.integers(0, 50), max_size=5).map(sorted))
def test_each_caller_is_called_once_in_the_order_of_arrival(wanted: list[int], syncs: list[int]) -> None:
    waiters, called = SyncWaiters(StoreEvents(raised, VirtualClock())), list[int]()
    for index, position in enumerate(wanted):
        waiters.add(position, partial(called.append, index))
    done = -1
    for position in syncs:
        before = len(called)
        assert waiters.synced(position) == any(each > position for each in wanted)
        assert called[before:] == [index for index, each in enumerate(wanted) if done < each <= position]
        done = max(done, position)


def test_a_caller_that_raises_costs_the_others_nothing() -> None:
    told: list[StoreEvent] = []
    waiters, called = SyncWaiters(StoreEvents(told.append, VirtualClock())), list[int]()

    def raises() -> None:
        raise OSError("of the caller")

    waiters.add(1, raises)
    waiters.add(1, partial(called.append, 2))
    waiters.synced(1)
    assert called == [2]
    assert [event.cause for event in told] == ["work that waits for a sync raised OSError: of the caller"]
