"""Messages that are stored once: by attribute of the topic, by a key of the client, by the key of a request."""

from __future__ import annotations

import pytest

from domain.admin.topic import PutTopic
from domain.command import Pull, Send
from domain.errors import ErrorCode
from domain.event import Done, Pulled, Refused, Sent
from domain.message import property as properties
from domain.message.message import RETAIN_SET, Message
from domain.message.once import digest
from domain.message.record import Record
from domain.topic.topic import Topic
from gateway.usecase.publish.latest import SPACE
from tests.gateway.usecase.bench import Bench, bench, code
from tests.gateway.usecase.event_recorder import only
from tests.stored_state import value_of

place = bench


def make(place: Bench, by: str) -> None:
    attributes = {"deduplication": by} if by else {}
    assert place.ask(PutTopic(1, Topic("T", 1, 1, attributes=attributes))) == [Done(1)]


def message(body: str, **stored: str) -> Message:
    """A message; in property names `_` stands for a dash, but not in CE_ and UNIQ_KEY."""
    pairs = [(name if name.isupper() or name[:3] == "CE_" else name.replace("_", "-"), value) for name, value in stored.items()]
    return Message("T", body.encode(), properties.encode(pairs), queue_id=0)


def send(place: Bench, *messages: Message, once: tuple[bytes, bytes] | None = None) -> list[int] | ErrorCode:
    """Offsets of the messages, or why they were refused."""
    [event] = place.ask(Send(1, list(messages), once=once))
    if isinstance(event, Refused):
        return event.failure.code
    assert isinstance(event, Sent)
    return [placed.queue_offset for placed in event.placed]


def stored(place: Bench) -> list[str]:
    event = only(Pulled, place.ask(Pull(1, "", "T", 0, 0, 1_000, 1 << 24)))
    return [Record(record).body.decode() for record in event.records]


def test_by_the_id_of_the_producer(place: Bench) -> None:
    make(place, "id")
    assert send(place, message("a", UNIQ_KEY="1")) == [0]
    assert send(place, message("a", UNIQ_KEY="1")) == [0]
    assert send(place, message("b", UNIQ_KEY="2"), message("a", UNIQ_KEY="1"), message("c")) == [1, 0, 2]
    assert send(place, message("c")) == [3], "the node's own id is a new one each time"
    assert stored(place) == ["a", "b", "c", "c"]


def test_by_source_and_id_of_an_event(place: Bench) -> None:
    make(place, "event")
    first = message("a", CE_source="/s", CE_id="1")
    assert send(place, first, message("b", CE_source="/t", CE_id="1"), message("x", UNIQ_KEY="u")) == [0, 1, 2]
    again = message("a", CE_source="/s", CE_id="1")
    assert send(place, again, message("x", UNIQ_KEY="u")) == [0, 3]


def test_without_the_attribute_everything_is_stored(place: Bench) -> None:
    make(place, "")
    assert send(place, message("a", UNIQ_KEY="1", CE_source="/s", CE_id="1")) == [0]
    assert send(place, message("a", UNIQ_KEY="1", CE_source="/s", CE_id="1")) == [1]


def test_another_deduplication_does_not_exist(place: Bench) -> None:
    answer = place.ask(PutTopic(1, Topic("T", 1, 1, attributes={"deduplication": "body"})))
    assert code(answer) is ErrorCode.ARGUMENT_ILLEGAL


def test_by_the_key_of_a_message_on_any_topic(place: Bench) -> None:
    assert send(place, message("a", idempotency_key="k")) == [0]
    assert send(place, message("a", idempotency_key="k")) == [0]
    assert send(place, message("other", idempotency_key="k")) is ErrorCode.KEY_REUSED
    assert stored(place) == ["a"]


def test_by_the_key_of_a_request(place: Bench) -> None:
    key = (b"k", digest(b"both"))
    assert send(place, message("a"), message("b"), once=key) == [0, 1]
    assert send(place, message("a"), message("b"), once=key) == [0, 1]
    assert send(place, message("c"), once=(b"k", digest(b"c"))) is ErrorCode.KEY_REUSED
    assert stored(place) == ["a", "b"]


def test_messages_keep_their_order_whatever_keys_they_have(place: Bench) -> None:
    make(place, "")
    parts = [message(str(at), **({"idempotency_key": f"k{at}"} if at % 3 == 1 else {})) for at in range(12)]
    assert send(place, *parts) == list(range(12))
    assert stored(place) == [str(at) for at in range(12)]


def test_a_repetition_does_not_set_the_latest_value_again(place: Bench) -> None:
    make(place, "id")
    for body, name in (("old", "1"), ("new", "2"), ("old", "1")):
        each = message(body, UNIQ_KEY=name)
        each.retain = RETAIN_SET
        send(place, each)
    latest = value_of(place.store.state, SPACE, b"T")
    assert latest is not None
    assert Record(latest).body == b"new"


@pytest.mark.parametrize("refused", ["other", "a"])
def test_of_several_messages_each_with_a_key_is_stored_or_refused_alone(place: Bench, refused: str) -> None:
    send(place, message("a", idempotency_key="k"))
    answer = send(place, message("x"), message(refused, idempotency_key="k"), message("y"))
    assert answer == ([1, 0, 2] if refused == "a" else ErrorCode.KEY_REUSED)
    assert stored(place) == ["a", "x", "y"]
