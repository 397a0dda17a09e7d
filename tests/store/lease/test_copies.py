"""Messages that block a floor: the copy for the retry topic can be stored, or the message stays where it is."""

from __future__ import annotations

from domain import limits
from domain.address import pop_retry_topic, pop_retry_topic_v1
from domain.errors import ErrorCode
from domain.message.message import Message
from domain.message.property import encode as stored_form
from domain.message.property import text
from domain.message.record import Record
from domain.store.store_request import PullRequest, ReadRequest
from store.lease.member_pulls import LATE_RETURN_MS
from store.settings import StoreSettings
from tests.store.driver import Driver, code_of

CONFIG = StoreSettings(checkpoint_ms=10_000_000)
RETRY = pop_retry_topic("g", "t")


def given_back_for_ten_minutes(driver: Driver, topic: str = "t") -> None:
    """The oldest message of a topic is delivered ten times, and nobody settles it."""
    for _ in range(10):
        assert len(driver.lease("g", topic, 1, invisible_ms=60_000).messages) == 1
        driver.clock.run_for(60_000)


def bodies(driver: Driver, topic: str) -> list[bytes]:
    return [Record(message.record).body for message in driver.lease("g", topic).messages]


def test_a_message_with_all_the_properties_that_earlier_versions_took_moves() -> None:
    for end in (b"\x02", b""):
        driver = Driver.with_topics("t", config=CONFIG)
        largest = b"p\x01" + b"v" * (limits.PROPERTIES_BYTES_MAX - 2 - len(end)) + end
        driver.send("t", b"poison", properties=largest)
        driver.send("t", b"next")
        given_back_for_ten_minutes(driver)
        assert bodies(driver, "t") == [b"next"], "what is behind it goes on"
        driver.clock.run_for(10)
        [copy] = driver.lease("g", RETRY).messages
        stored = Record(copy.record).properties
        assert Record(copy.record).body == b"poison"
        assert len(stored) <= limits.PROPERTIES_BYTES_MAX
        assert text(stored, "p") == "v" * (limits.PROPERTIES_BYTES_MAX - 2 - len(end))
        assert driver.call(driver.store.positions.offset, "g", "t", 0) == 1


def test_while_the_store_takes_nothing_the_message_is_delivered_where_it_is() -> None:
    driver = Driver.with_topics("t", config=CONFIG)
    driver.send("t", b"poison", b"next")
    given_back_for_ten_minutes(driver)
    driver.disk.free = 0.0
    driver.clock.run_for(60_000)
    assert code_of(driver.append([Message("t", b"x", queue_id=0)])) is ErrorCode.STORE_UNAVAILABLE
    assert bodies(driver, "t") == [b"poison", b"next"]
    assert driver.store.metadata.topic(RETRY) is None
    assert driver.call(driver.store.positions.offset, "g", "t", 0) == 0
    driver.disk.free = 0.5
    driver.clock.run_for(60_000)
    assert bodies(driver, "t") == [b"next"], "it moves when there is room again"
    driver.clock.run_for(10)
    assert bodies(driver, RETRY) == [b"poison"]


def test_a_message_of_a_retry_topic_of_version_1_goes_to_that_of_version_2() -> None:
    """In its old place it would be among the messages of other groups for good."""
    driver = Driver(CONFIG)
    old = pop_retry_topic_v1("g", "t")
    driver.topic(old)
    driver.send(old, b"poison", properties=stored_form([("RETRY_TOPIC", "t"), ("1ST_POP_TIME", "1")]))
    given_back_for_ten_minutes(driver, old)
    assert bodies(driver, old) == []
    driver.clock.run_for(10)
    [copy] = driver.lease("g", RETRY).messages
    assert text(Record(copy.record).properties, "RETRY_TOPIC") == "t"
    for topic in ("%RETRY%g", "%RETRY%g_other"):
        driver.topic(topic)
        driver.send(topic, b"given back", properties=stored_form([("RETRY_TOPIC", "t")]))
        given_back_for_ten_minutes(driver, topic)
        driver.lease("g", topic)
        driver.clock.run_for(10)
        assert bodies(driver, topic) == [b"given back"], "others stay in the topic that they are read from"


def test_what_comes_back_late_to_a_member_that_pulls_is_marked_as_given_back() -> None:
    """So it cannot be taken for a message that POP has moved for a group with a shorter name."""
    driver = Driver.with_topics("c", "%RETRY%a_b_c", config=CONFIG)
    driver.send("c", b"late", b"next", properties=b"UNIQ_KEY\x01M\x02")

    def pull(offset: int) -> None:
        request = PullRequest("a_b_c", "member", "%RETRY%a_b_c", ReadRequest("c", 0, offset, 32, 1 << 20))
        driver.call(driver.store.pulls.pull, request)

    [leased] = driver.lease("a_b_c", "c", 1, invisible_ms=1_000).messages
    assert Record(leased.record).body == b"late"
    pull(1)
    driver.clock.run_for(2 * LATE_RETURN_MS + 2_000)
    pull(2)
    driver.clock.run_for(50)
    [copy] = [Record(each) for each in driver.read("%RETRY%a_b_c").records]
    assert (copy.body, text(copy.properties, "RETRY_TOPIC"), text(copy.properties, "ORIGIN_MESSAGE_ID")) == (b"late", "c", "M")
    assert copy.reconsume_times == 1
