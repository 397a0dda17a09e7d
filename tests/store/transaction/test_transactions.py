"""Half messages: readable once after a commit, never after a rollback, checked while undecided, through crashes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from domain.address import HALF_TOPIC, UNDECIDED_TOPIC
from domain.errors import ErrorCode, Failure
from domain.message import property as properties
from domain.message.message import SYS_COMMITTED, SYS_PREPARED, SYS_TRANSACTION, Message, Placed
from domain.message.record import Record
from store.settings import StoreSettings
from tests.store.driver import Driver, RecordingListener, code_of, sure

GROUP = "producers"


class RecordingTransactionListener:
    """A TransactionListener that records its calls."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.there = True
        self.times: list[tuple[int, str]] = []
        self.records: list[Record] = []
        driver.store.transactions.listen(self)

    def undecided(self, group: str, record: bytes, check: int) -> bool:
        assert group == GROUP
        assert 1 <= check <= 15
        if not self.there:
            return False
        self.records.append(Record(record))
        name = properties.text(self.records[-1].properties, "UNIQ_KEY")
        self.times.append((self.driver.clock.wall_ms(), name))
        return True


def message(name: str, *, topic: str = "t", queue_id: int = 0, more: bytes = b"", group: str = GROUP) -> Message:
    """A half message as an adapter and the gateway make it."""
    stored = f"UNIQ_KEY\x01{name}\x02TRAN_MSG\x01true\x02PGROUP\x01{group}\x02".encode() + more
    return Message(topic, name.encode(), stored, queue_id=queue_id, message_id=name, sys_flag=SYS_PREPARED)


def prepare(driver: Driver, name: str, **facts: object) -> Placed:
    return sure(driver.append([message(name, **facts)]))[0]  # type: ignore[arg-type]


def end(driver: Driver, name: str, commit: bool, place: Placed | None = None, group: str = GROUP) -> Failure | None:
    offset, position = (-1, -1) if place is None else (place.queue_offset, place.physical_offset)
    result: Failure | None = driver.call(driver.store.transactions.end, group, name, offset, position, commit)
    return result


def opened(driver: Driver) -> int:
    return int(driver.store.figures()["transactions_open"])


@pytest.fixture
def driver() -> Driver:
    driver = Driver.with_topics("t")
    driver.topic(UNDECIDED_TOPIC)
    return driver


def test_a_half_message_is_not_readable_until_it_commits(driver: Driver) -> None:
    listener = RecordingListener()
    driver.store.log.listen(listener)
    more = b"TAGS\x01a\x02DELAY\x013\x02__SHARDINGKEY\x01k\x02"
    place = prepare(driver, "one", queue_id=0, more=more)
    driver.send("t", b"between")
    assert driver.bodies("t") == [b"between"]
    assert end(driver, "one", True, place) is None
    record = Record(driver.read("t").records[1])
    assert (record.body, record.prepared_offset) == (b"one", place.physical_offset)
    assert record.sys_flag & SYS_TRANSACTION == SYS_COMMITTED
    kept = properties.decode(record.properties)
    assert kept == {"UNIQ_KEY": "one", "PGROUP": GROUP, "TAGS": "a", "__SHARDINGKEY": "k", "__transactionId__": "one"}
    assert listener.seen == [("t", 0, 0), ("t", 0, 1)]
    assert opened(driver) == 0


def test_a_rolled_back_half_message_is_never_readable_and_a_decision_is_final(driver: Driver) -> None:
    one, two = prepare(driver, "one"), prepare(driver, "two")
    assert end(driver, "one", False, one) is None
    assert end(driver, "two", True) is None, "the id alone will do"
    for _ in range(2):
        assert end(driver, "one", False, one) is None
        assert end(driver, "two", True, two) is None
    for name, commit, place in (("one", True, one), ("two", False, two)):
        assert code_of(end(driver, name, commit, place)) is ErrorCode.MESSAGE_NOT_FOUND
    assert driver.bodies("t") == [b"two"]
    after = driver.killed()
    assert end(after, "two", True, two) is None
    after.clock.run_for(600_000)
    assert after.bodies("t") == [b"two"]


def test_only_the_sending_group_decides_and_only_with_the_right_position(driver: Driver) -> None:
    place = prepare(driver, "one")
    assert code_of(end(driver, "one", True, place, "others")) is ErrorCode.NOT_ALLOWED
    for wrong in (Placed(0, 0, place.physical_offset + 1, 0, "one"), Placed(0, 77, 0, 0, "one")):
        assert code_of(end(driver, "nobody", True, wrong)) is ErrorCode.MESSAGE_NOT_FOUND
    assert driver.bodies("t") == []
    assert end(driver, "one", True, place) is None


def test_a_commit_to_a_deleted_topic_fails_with_topic_not_found(driver: Driver) -> None:
    place = prepare(driver, "one")
    driver.call(driver.store.metadata.delete_topic, "t")
    assert code_of(end(driver, "one", True, place)) is ErrorCode.TOPIC_NOT_FOUND
    assert opened(driver) == 0


def test_a_producer_that_sends_again_has_one_transaction(driver: Driver) -> None:
    asked = RecordingTransactionListener(driver)
    first, second = prepare(driver, "one"), prepare(driver, "one")
    assert first.queue_offset != second.queue_offset
    assert opened(driver) == 1
    driver.clock.run_for(7_000)
    assert [name for _, name in asked.times] == ["one"]
    assert end(driver, "one", True, first) is None
    assert end(driver, "one", True, second) is None
    assert driver.bodies("t") == [b"one"]


def test_checks_are_sent_at_their_time_and_end_after_the_last(driver: Driver) -> None:
    asked = RecordingTransactionListener(driver)
    began = driver.clock.wall_ms()
    place = prepare(driver, "slow", more=b"TAGS\x01x\x02")
    prepare(driver, "eager", more=b"CHECK_IMMUNITY_TIME_IN_SECONDS\x0160\x02")
    driver.clock.run_for(50_000)
    assert [name for _, name in asked.times] == ["slow", "slow"]
    first = asked.times[0][0] - began
    assert 6_000 <= first <= 6_100
    assert 30_000 <= asked.times[1][0] - asked.times[0][0] <= 30_100
    shown = asked.records[0]
    assert (shown.topic, shown.queue_id, shown.body) == ("t", 0, b"slow")
    assert (shown.queue_offset, shown.physical_offset) == (place.queue_offset, place.physical_offset)
    assert properties.text(shown.properties, "PGROUP") == GROUP
    driver.clock.run_for(15_000)
    assert [name for _, name in asked.times][-1] == "eager" or "eager" in [name for _, name in asked.times]
    assert end(driver, "eager", True) is None
    driver.clock.run_for(600_000)
    assert [name for _, name in asked.times].count("slow") == 15
    assert [name for _, name in asked.times].count("eager") == 1
    assert driver.bodies(UNDECIDED_TOPIC) == [b"slow"]
    assert driver.bodies("t") == [b"eager"]
    refused = end(driver, "slow", True, place)
    assert isinstance(refused, Failure)


def test_checks_are_counted_across_restarts(driver: Driver) -> None:
    prepare(driver, "slow")
    total = 0
    for restart in (driver.killed, None, None, None):
        driver = restart() if restart is not None else driver.restarted()
        asked = RecordingTransactionListener(driver)
        driver.clock.run_for(120_000)
        total += len(asked.times)
    driver.clock.run_for(120_000)
    assert total + len(asked.times) >= 15
    assert total <= 15
    assert driver.bodies(UNDECIDED_TOPIC) == [b"slow"]
    assert opened(driver) == 0


def test_the_check_policy_is_configured_and_can_be_changed_at_runtime() -> None:
    driver = Driver(StoreSettings(transaction_timeout_ms=1_000, transaction_check_ms=5_000, transaction_checks_max=3))
    driver.topic("t")
    driver.topic(UNDECIDED_TOPIC)
    asked = RecordingTransactionListener(driver)
    begun = driver.clock.wall_ms()
    prepare(driver, "one")
    driver.clock.run_for(6_500)
    assert [(at - begun) // 1_000 for at, _ in asked.times] == [1, 6]
    driver.store.transactions.check_policy.interval_ms = 2_000
    driver.store.transactions.check_policy.timeout_ms = 3_000
    prepare(driver, "two")
    driver.clock.run_for(6_000)
    assert [(at - begun) // 1_000 for at, name in asked.times if name == "one"] == [1, 6, 11]
    assert [(at - begun) // 1_000 for at, name in asked.times if name == "two"] == [9, 11]
    driver.store.transactions.check_policy.count_max = 2
    driver.clock.run_for(2_000)
    assert driver.bodies(UNDECIDED_TOPIC) == [b"one", b"two"]


def test_a_store_that_refuses_writes_keeps_transactions_open(driver: Driver) -> None:
    asked = RecordingTransactionListener(driver)
    place = prepare(driver, "one")
    driver.disk.free = 0.01
    driver.clock.run_for(10_000)
    assert isinstance(end(driver, "one", True, place), Failure)
    assert asked.times == []
    driver.disk.free = 0.5
    driver.clock.run_for(2_000)
    assert len(asked.times) == 1
    assert end(driver, "one", True, place) is None
    assert driver.bodies("t") == [b"one"]


def test_retention_keeps_open_half_messages() -> None:
    config = StoreSettings(retention_ms=60_000, segment_bytes=20_000, retention_check_ms=1_000)
    driver = Driver(config)
    driver.topic("t", retention_ms=3_600_000)
    driver.topic("noise")
    immune = b"CHECK_IMMUNITY_TIME_IN_SECONDS\x013000\x02"
    places = {name: prepare(driver, name, more=immune) for name in ("yes", "no", "open", *map(str, range(300)))}
    for _ in range(8):
        driver.send("noise", *[b"x" * 500] * 60)
        driver.clock.run_for(30_000)
        driver = driver.killed()
    assert driver.bounds(HALF_TOPIC)[0] > 0, "the old records are gone"
    assert opened(driver) == 303
    assert end(driver, "yes", True, places["yes"]) is None
    assert end(driver, "no", False, places["no"]) is None
    for number in range(300):
        assert end(driver, str(number), True) is None
    assert driver.bodies("t") == [b"yes", *(b"%d" % number for number in range(300))]
    asked = RecordingTransactionListener(driver)
    driver.clock.step_wall(3_000_000)
    driver.clock.run_for(5_000)
    assert [name for _, name in asked.times] == ["open"]


def _killed(driver: Driver, chance: random.Random) -> Driver:
    return driver.killed()


def _powered_off(driver: Driver, chance: random.Random) -> Driver:
    return driver.powered_off(lambda name, synced, written: chance.randint(synced, written))


@pytest.mark.parametrize("fail", [_killed, _powered_off])
@pytest.mark.parametrize("seed", range(20))
def test_a_transaction_is_decided_once_wherever_a_crash_cuts_the_log(
    seed: int, fail: Callable[[Driver, random.Random], Driver]
) -> None:
    chance = random.Random(seed)
    driver = Driver.with_topics("t", config=StoreSettings(checkpoint_bytes=2_000, segment_bytes=8_000))
    driver.topic(UNDECIDED_TOPIC)
    decided: dict[str, bool] = {}
    promised: dict[str, bool] = {}
    undecided: dict[str, Placed] = {}
    asked_before: set[str] = set()
    for step in range(120):
        roll = chance.random()
        if roll < 0.4:
            name = f"m{step}"
            undecided[name] = prepare(driver, name)
        elif roll < 0.8 and undecided:
            name = chance.choice(sorted(undecided))
            commit = decided.setdefault(name, chance.random() < 0.6)
            place = undecided[name] if chance.random() < 0.5 else Placed(0, -1, -1, 0, name)
            answers: list[Failure | None] = []
            driver.store.transactions.end(GROUP, name, place.queue_offset, place.physical_offset, commit, answers.append)
            driver.clock.run_for(chance.choice((0, 0.5, 3)))
            if answers:
                lost = answers[0]
                # An answer that was cut off: the id alone no longer says what was decided, the place does.
                assert lost is None or (name in asked_before and place.queue_offset < 0)
                promised[name] = commit
                del undecided[name]
            asked_before.add(name)
        elif roll < 0.9:
            driver.clock.run_for(chance.randrange(2_000))
        else:
            driver = fail(driver, chance)
    driver = fail(driver, chance)
    driver.clock.run_for(10)
    for name, place in undecided.items():
        result = end(driver, name, decided.setdefault(name, chance.random() < 0.5), place)
        assert result is None, (name, result)
    seen = [body.decode() for body in driver.bodies("t")]
    assert sorted(seen) == sorted(name for name, commit in decided.items() if commit)
    assert set(promised) <= set(decided)
    assert opened(driver) == 0
    assert driver.bodies(UNDECIDED_TOPIC) == []


def test_an_unanswered_check_is_repeated_when_a_producer_connects(driver: Driver) -> None:
    asked = RecordingTransactionListener(driver)
    asked.there = False
    for number in range(300):
        prepare(driver, f"n{number:03}")
    prepare(driver, "decided")
    driver.clock.run_for(7_500)
    assert asked.times == []
    end(driver, "decided", True)
    asked.there = True
    driver.store.transactions.present("others")
    driver.clock.run_for(10)
    assert asked.times == [], "of another group"
    began = driver.clock.wall_ms()
    for _ in range(10):
        driver.store.transactions.present(GROUP)
    driver.clock.run_for(50)
    assert len(asked.times) == 256, "so many at a time"
    driver.clock.run_for(1_000)
    assert [name for _, name in asked.times] == [f"n{number:03}" for number in range(300)]
    driver.store.transactions.present(GROUP)
    driver.clock.run_for(29_000 - (driver.clock.wall_ms() - began))
    assert len(asked.times) == 300, "it was heard"
    driver.clock.run_for(3_000)
    assert len(asked.times) == 600, "an interval later, since nobody has answered"


def test_after_a_start_the_latest_check_is_repeated(driver: Driver) -> None:
    asked = RecordingTransactionListener(driver)
    prepare(driver, "asked")
    driver.clock.run_for(7_500)
    prepare(driver, "young")
    assert [name for _, name in asked.times] == ["asked"]
    driver = driver.killed()
    asked = RecordingTransactionListener(driver)
    driver.store.transactions.present(GROUP)
    driver.clock.run_for(100)
    assert [name for _, name in asked.times] == ["asked"], "whether it was heard is not on record"


def test_halves_on_both_sides_of_the_end_of_a_file_are_checked() -> None:
    """They are read at once, together with the filler between them."""
    driver = Driver.with_topics(
        "t", config=StoreSettings(segment_bytes=4_096, cache_bytes=0, transaction_timeout_ms=2_000, transaction_check_ms=60_000)
    )
    before = len(driver.disk.names("log"))
    number = 0
    while len(driver.disk.names("log")) == before:
        prepare(driver, f"half{number}")
        number += 1
    driver = driver.restarted()
    listener = RecordingTransactionListener(driver)
    driver.clock.stall(3_000)  # they are due at once
    driver.clock.run_for(4_000)
    assert sorted(name for _, name in listener.times) == sorted(f"half{each}" for each in range(number))
    assert driver.store.parts.reader.checked.failed == 0


def test_a_damaged_half_holds_back_no_other() -> None:
    driver = Driver(StoreSettings(cache_bytes=0, transaction_timeout_ms=2_000, transaction_check_ms=60_000))
    driver.topic("t")
    for name in ("first", "damaged", "last"):
        prepare(driver, name)
    driver = driver.restarted()
    listener = RecordingTransactionListener(driver)
    (file,) = [name for name, content in driver.disk.files.items() if b"damaged" in content.data and name[:4] == "log/"]
    driver.disk.flip(file, bytes(driver.disk.files[file].data).rindex(b"damaged"))
    driver.clock.stall(3_000)  # they are due at once
    driver.clock.run_for(4_000)
    assert {name for _, name in listener.times} == {"first", "last"}
