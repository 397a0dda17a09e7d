"""The contract of a storage engine. A test class inherits `MessageStoreContract` and provides the fixture `driver`."""

from __future__ import annotations

from functools import partial

import pytest

from domain.errors import ErrorCode, Failure
from domain.filter.tag import parse
from domain.message.message import Message, Placed
from domain.message.once import OnceKey
from domain.message.record import Record, check
from domain.store.store_ports import StateChange
from domain.store.store_request import ReadRequest
from domain.topic.topic import Durability, Group
from tests.store.driver import Driver, RecordingListener, code_of, sure
from tests.stored_state import pairs, value_of


class MessageStoreContract:
    """The tests. `driver` is a fixture of the inheriting class."""

    def test_queue_offsets_count_from_zero_and_records_are_whole(self, driver: Driver) -> None:
        placed = driver.send("t", b"a", b"b") + driver.send("t", b"c")
        assert [place.queue_offset for place in placed] == [0, 1, 2]
        records = driver.read("t").records
        assert all(check(data) for data in records)
        assert [Record(data).physical_offset for data in records] == [place.physical_offset for place in placed]

    def test_statuses_of_a_read(self, driver: Driver) -> None:
        driver.send("t", b"a", b"b", b"c", properties=b"TAGS\x01x\x02")
        assert driver.read("t", 0, 2).next_offset == 2
        assert driver.read("t", 3).status == "EMPTY"
        assert driver.read("t", 4).status == "TOO_LARGE"
        assert driver.read("t", 4).next_offset == 3
        assert driver.read("t", 0, tags=parse("y")).status == "NO_MATCH"
        assert driver.read("t", 0, tags=parse("y")).next_offset == 3
        assert driver.read("nowhere").status == "EMPTY"

    @pytest.mark.parametrize("queue_id", [-1, -(1 << 31), 1 << 31])
    @pytest.mark.parametrize("properties", [b"", b"TIMER_DELAY_MS\x01500\x02"])
    def test_a_message_for_no_queue_is_refused_and_nothing_of_its_append_is_stored(
        self, driver: Driver, queue_id: int, properties: bytes
    ) -> None:
        messages = [Message("t", b"a", b"", queue_id=0), Message("t", b"b", properties, queue_id=queue_id)]
        once: list[list[Placed] | Failure] = []
        driver.store.log.append_once(OnceKey("p", b"1", b"d"), messages, once.append)
        driver.clock.run_for(1_000)
        for refused in (driver.append(messages), once[0]):
            assert isinstance(refused, Failure)
            assert (refused.code, str(queue_id) in refused.text) == (ErrorCode.QUEUE_ILLEGAL, True)
        driver.send("t", b"c")
        for found in (driver, driver.killed(), driver.restarted()):
            assert found.bodies("t") == [b"c"]

    def test_a_read_gives_one_record_however_small_its_bound(self, driver: Driver) -> None:
        driver.send("t", b"x" * 1_000, b"y" * 1_000)
        assert len(sure(driver.call(driver.store.log.read, ReadRequest("t", 0, 0, 10, 1))).records) == 1
        assert len(sure(driver.call(driver.store.log.read, ReadRequest("t", 0, 0, 10, 1_500))).records) == 1

    def test_tags_are_compared_as_strings(self, driver: Driver) -> None:
        driver.send("t", b"1", properties=b"TAGS\x01Aa\x02")
        driver.send("t", b"2", properties=b"TAGS\x01BB\x02")
        result = driver.read("t", tags=parse("BB"))
        assert [Record(data).body for data in result.records] == [b"2"], "Aa and BB have the same hash"
        leased = driver.lease("g", "t", tags=parse("BB"))
        assert [Record(message.record).body for message in leased.messages] == [b"2"]
        driver.settle("g", "t", *leased.messages)
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 2, "what the filter refuses is settled in passing"

    def test_search_by_time(self, driver: Driver) -> None:
        times = []
        for body in (b"a", b"b", b"c"):
            times.append(driver.send("t", body)[0].store_ms)
            driver.clock.run_for(1_000)
        search = driver.store.log.search
        assert driver.call(search, "t", 0, times[1], False) == 1
        assert driver.call(search, "t", 0, times[1] + 1, False) == 2
        assert driver.call(search, "t", 0, times[1] + 1, True) == 1
        assert driver.call(search, "t", 0, 0, False) == 0
        assert driver.call(search, "t", 0, times[2] + 1, False) == 3

    def test_a_message_is_found_by_its_log_position(self, driver: Driver) -> None:
        place = driver.send("t", b"a")[0]
        assert Record(sure(driver.call(driver.store.log.record_at, place.physical_offset))).body == b"a"
        for wrong in (place.physical_offset + 1, 1 << 40, -1):
            assert driver.call(driver.store.log.record_at, wrong).code is ErrorCode.MESSAGE_NOT_FOUND

    def test_arrivals_are_told_in_order_and_once(self, driver: Driver) -> None:
        listener = RecordingListener()
        driver.store.log.listen(listener)
        driver.send("t", b"a", b"b")
        driver.send("t", b"c", queue_id=1)
        assert listener.seen == [("t", 0, 0), ("t", 0, 1), ("t", 1, 0)]

    def test_nothing_is_readable_before_its_durability_level_is_reached(self, driver: Driver) -> None:
        driver.topic("page", Durability.PAGE)
        driver.topic("flushed", Durability.FLUSHED)
        for topic, seen in (("page", 1), ("flushed", 0)):
            driver.store.log.append([Message(topic, b"a", queue_id=0)], None)
            driver.clock.run_turn()
            assert driver.bounds(topic) == (0, seen)
        driver.clock.run_for(100)
        assert driver.bounds("flushed") == (0, 1)

    def test_state_changes_go_with_their_messages(self, driver: Driver) -> None:
        driver.append([Message("t", b"a", queue_id=0)], [StateChange("latest", b"k", b"v")])
        assert value_of(driver.store.state, "latest", b"k") == b"v"
        put = driver.store.state.put
        assert driver.call(put, [StateChange("latest", b"k2", b"w"), StateChange("other", b"k", b"z")]) is None
        assert list(pairs(driver.store.state, "latest", b"k")) == [(b"k", b"v"), (b"k2", b"w")]
        assert driver.call(put, [StateChange("latest", b"k", None)]) is None
        assert list(pairs(driver.store.state, "latest", b"")) == [(b"k2", b"w")]

    def test_changes_of_state_are_answered_in_their_order(self, driver: Driver) -> None:
        answered: list[int] = []

        def note(number: int, _: None | Failure) -> None:
            answered.append(number)

        for number in range(20):
            driver.store.state.put([StateChange("other", b"%d" % number, b"v")], partial(note, number))
            driver.clock.run_for(number % 3)
        driver.clock.run_for(100)
        assert answered == list(range(20))

    def test_an_expired_lease_is_redelivered(self, driver: Driver) -> None:
        listener = RecordingListener()
        driver.store.log.listen(listener)
        driver.send("t", b"a", b"b")
        first = driver.lease("g", "t", invisible_ms=1_000)
        assert [message.attempt for message in first.messages] == [1, 1]
        assert driver.lease("g", "t").messages == []
        assert driver.settle("g", "t", first.messages[0]) == [None]
        driver.clock.run_for(1_000)
        assert listener.frees == [("g", "t")]
        again = driver.lease("g", "t")
        assert [message.attempt for message in again.messages] == [2]
        assert Record(again.messages[0].record).reconsume_times == 1
        assert again.pop_ms > first.pop_ms
        expired = driver.settle("g", "t", first.messages[1])[0]
        assert code_of(expired) is ErrorCode.RECEIPT_EXPIRED
        [late] = sure(driver.call(driver.store.leases.extend, "g", "t", [first.messages[1].receipt], 60_000))
        assert code_of(late) is ErrorCode.RECEIPT_EXPIRED, "who was too slow takes nothing from the new holder"
        assert driver.settle("g", "t", *again.messages) == [None]
        assert driver.settle("g", "t", *again.messages) == [None], "settling twice is success"
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 2

    def test_a_late_settle_succeeds_until_the_message_is_leased_again(self, driver: Driver) -> None:
        driver.send("t", b"a")
        leased = driver.lease("g", "t", invisible_ms=1_000).messages
        driver.clock.run_for(5_000)
        assert driver.settle("g", "t", *leased) == [None]
        assert driver.lease("g", "t").messages == []

    def test_nack_frees_at_once_and_extend_prolongs_the_lease(self, driver: Driver) -> None:
        driver.send("t", b"a", b"b")
        one, two = driver.lease("g", "t", invisible_ms=1_000).messages
        assert len(sure(driver.call(driver.store.leases.extend, "g", "t", [one.receipt], 0))) == 1
        longer = sure(driver.call(driver.store.leases.extend, "g", "t", [two.receipt], 60_000))[0]
        driver.clock.run_for(2_000)
        assert [message.receipt.queue_offset for message in driver.lease("g", "t").messages] == [0]
        stale = driver.settle("g", "t", two)[0]
        assert isinstance(stale, Failure)
        assert sure(driver.call(driver.store.leases.settle, "g", "t", [longer])) == [None]

    def test_leasing_from_any_queue_goes_round_the_queues(self, driver: Driver) -> None:
        for queue_id in range(3):
            driver.send("t", b"a", b"b", queue_id=queue_id)
        seen = [driver.lease("g", "t", limit=1).messages[0].receipt.queue_id for _ in range(3)]
        assert sorted(seen) == [0, 1, 2]
        assert len(driver.lease("g", "t").messages) == 3

    def test_an_ordered_queue_waits_for_leased_messages(self, driver: Driver) -> None:
        driver.send("t", b"a", b"b", b"c")
        first = driver.lease("g", "t", limit=2, invisible_ms=1_000, ordered=True, attempt_id="one")
        assert [message.receipt.revive_queue for message in first.messages] == [999, 999]
        assert driver.lease("g", "t", ordered=True, attempt_id="two").messages == []
        same = driver.lease("g", "t", ordered=True, attempt_id="one")
        assert [message.receipt.queue_offset for message in same.messages] == [0, 1]
        assert [message.attempt for message in same.messages] == [1, 1], "the same attempt is asked for again"
        assert driver.settle("g", "t", same.messages[1]) == [None]
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 0
        driver.clock.run_for(10_000)
        again = driver.lease("g", "t", ordered=True, attempt_id="three")
        assert [(message.receipt.queue_offset, message.attempt) for message in again.messages] == [(0, 2), (2, 1)]
        driver.settle("g", "t", *again.messages)
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 3

    def test_positions_go_forward_and_back(self, driver: Driver) -> None:
        assert driver.call(driver.store.positions.offset, "g", "t", 0).code is ErrorCode.OFFSET_NOT_FOUND
        driver.send("t", *[b"%d" % number for number in range(5)])
        leased = driver.lease("g", "t", limit=3).messages
        assert driver.call(driver.store.positions.commit, "g", [("t", 0, 2)]) is None
        assert driver.settle("g", "t", leased[0]) == [None], "a commit settles what lies below it"
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 2
        assert driver.call(driver.store.positions.commit, "g", [("t", 0, 0)]) is None
        assert [message.receipt.queue_offset for message in driver.lease("g", "t").messages] == [0, 1, 2, 3, 4]
        assert driver.call(driver.store.positions.drop_group, "g") is None
        assert driver.call(driver.store.positions.offset, "g", "t", 0).code is ErrorCode.OFFSET_NOT_FOUND

    def test_a_group_without_position_begins_at_the_first_or_last_message(self, driver: Driver) -> None:
        driver.send("t", b"a", b"b", b"c")
        assert len(driver.lease("first", "t", from_first=True).messages) == 3
        assert len(driver.lease("hot", "t", from_first=False).messages) == 3, "all there ever was is still in memory"

    def test_a_queue_is_hot_while_all_its_messages_are_in_the_newest_log(self, driver: Driver) -> None:
        assert driver.call(driver.store.log.is_hot, "t", 0) is True
        driver.send("t", b"a", b"b", b"c")
        assert driver.call(driver.store.log.is_hot, "t", 0) is True
        again = driver.killed()
        assert again.call(again.store.log.is_hot, "t", 0) is True

    def test_a_deleted_topic_is_empty_and_begins_again(self, driver: Driver) -> None:
        driver.topic("t")
        driver.send("t", b"a", b"b")
        driver.lease("g", "t")
        assert driver.call(driver.store.metadata.delete_topic, "t") is None
        assert driver.store.metadata.topic("t") is None
        assert driver.bounds("t") == (0, 0)
        assert driver.call(driver.store.positions.offset, "g", "t", 0).code is ErrorCode.OFFSET_NOT_FOUND
        driver.topic("t")
        assert driver.send("t", b"c")[0].queue_offset == 0
        assert driver.bodies("t") == [b"c"]

    def test_changes_of_topics_are_followed_once_they_are_there(self, driver: Driver) -> None:
        metadata = driver.store.metadata
        driver.topic("before")
        seen: list[tuple[str, bool]] = []
        metadata.follow_topics(lambda name: seen.append((name, metadata.topic(name) is not None)))
        driver.topic("t")
        driver.topic("t", retention_ms=5)
        assert driver.call(metadata.delete_topic, "t") is None
        assert driver.call(metadata.put_group, Group("g")) is None
        assert seen == [("t", True), ("t", True), ("t", False)]

    def test_topics_and_groups_are_listed_by_name(self, driver: Driver) -> None:
        for name in ("b", "a"):
            driver.topic(name)
            assert driver.call(driver.store.metadata.put_group, Group(name, retry_max=3)) is None
        assert [topic.name for topic in driver.store.metadata.topics()] == ["a", "b"]
        assert [group.retry_max for group in driver.store.metadata.groups()] == [3, 3]
        assert driver.call(driver.store.positions.drop_group, "a") is None
        assert driver.store.metadata.group("a") is None

    @pytest.mark.parametrize("delay", [b"DELAY\x012\x02", b"TIMER_DELAY_MS\x015000\x02", b"TIMER_DELAY_SEC\x015\x02"])
    def test_a_delayed_message_is_delivered_at_its_time_and_never_early(self, driver: Driver, delay: bytes) -> None:
        driver.topic("t")
        place = sure(driver.append([Message("t", b"late", b"KEYS\x01k\x02" + delay, queue_id=0)]))[0]
        due = place.store_ms + 5_000
        driver.clock.run_for(due - driver.clock.wall_ms() - 1)
        assert driver.bounds("t") == (0, 0)
        driver.clock.run_for(100)
        record = Record(driver.read("t").records[0])
        told = delay if delay.startswith(b"DELAY") else delay + b"TIMER_OUT_MS\x01%d\x02" % due
        assert (record.body, record.properties) == (b"late", b"KEYS\x01k\x02" + told)
        assert record.store_ms >= due

    def test_a_change_goes_with_the_delivery_of_a_delayed_message(self, driver: Driver) -> None:
        def change(message: Message) -> StateChange | None:
            if b"MARK" not in message.properties:
                return None
            message.properties = message.properties.replace(b"MARK\x01x\x02", b"")
            return StateChange("space", message.body, message.topic.encode())

        driver.topic("t")
        driver.store.timers.accompany(change)
        late = [(b"a", b"MARK\x01x\x02TIMER_DELAY_MS\x015000\x02"), (b"b", b"TIMER_DELAY_MS\x015000\x02")]
        over = (b"c", b"MARK\x01x\x02TIMER_DELIVER_MS\x011\x02")
        for body, stored in (*late, over):
            sure(driver.append([Message("t", body, stored, queue_id=0)]))
        assert [value_of(driver.store.state, "space", key) for key in (b"a", b"b", b"c")] == [None, None, b"t"]
        driver.clock.run_for(5_100)
        assert [value_of(driver.store.state, "space", key) for key in (b"a", b"b", b"c")] == [b"t", None, b"t"]
        found = [Record(data) for data in driver.read("t").records]
        assert sorted(record.body for record in found) == [b"a", b"b", b"c"]
        assert all(b"MARK" not in record.properties for record in found)
