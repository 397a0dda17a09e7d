"""Messages by key or id over HTTP."""

from __future__ import annotations

import json
import zlib

import pytest

from domain import limits
from domain.admin.message import TIME_MAX_MS, MessagesFound, QueryMessages
from domain.command import Command
from domain.errors import ErrorCode, Failure
from domain.event import Event, Refused
from domain.message.message import SYS_COMPRESSED
from tests.protocols.http.stage import Client, record
from tests.protocols.taken import last

MESSAGES = "/v1/topics/orders/messages"


def finding(*records: bytes) -> Client:
    """A client of a gateway that finds fixed records."""

    def react(command: Command) -> Event:
        assert isinstance(command, QueryMessages)
        return MessagesFound(command.ticket, list(records))

    return Client(react)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("?key=k%C3%A9", ("orders", "k\u00e9", 0, TIME_MAX_MS, 32, False)),
        ("?id=A%20B&max=64", ("orders", "A B", 0, TIME_MAX_MS, 64, True)),
        ("?key=k&from=1970-01-01T00:00:01Z&to=2500", ("orders", "k", 1_000, 2_500, 32, False)),
    ],
)
def test_what_is_asked(target: str, expected: tuple[object, ...]) -> None:
    client = finding()
    answer = client.ask("GET", MESSAGES + target)
    assert (answer.status, json.loads(answer.body)) == (200, {"messages": []})
    command = last(client.commands, QueryMessages)
    found = (command.topic, command.key, command.begin_ms, command.end_ms, command.limit, command.unique)
    assert found == expected


def test_messages_come_as_from_a_queue() -> None:
    answer = finding(record(properties=b"UNIQ_KEY\x01ABC\x02KEYS\x01k l\x02")).ask("GET", MESSAGES + "?key=l")
    (message,) = json.loads(answer.body)["messages"]
    assert (message["id"], message["key"], message["body"]) == ("ABC", "k l", "aGVsbG8=")


def test_messages_that_inflate_end_within_the_budget_of_an_answer() -> None:
    packed = zlib.compress(bytes(1 << 20))
    found = finding(*[record(body=packed, sys_flag=SYS_COMPRESSED) for _ in range(64)])
    answer = found.ask("GET", MESSAGES + "?key=l&max=64")
    assert len(json.loads(answer.body)["messages"]) == limits.RECEIVE_BYTES_MAX >> 20


@pytest.mark.parametrize(
    "target",
    [
        MESSAGES, MESSAGES + "?key=", MESSAGES + "?id=", MESSAGES + "?key=a&id=b", MESSAGES + "?key=a%20b",
        MESSAGES + "?key=a&max=65", MESSAGES + "?key=a&from=yesterdayT", MESSAGES + "?key=a&to=-1", MESSAGES + "?key=a&when=1",
        "/v1/topics/orders/eu/messages?key=a",
    ],
)  # fmt: skip
def test_questions_that_are_none(target: str) -> None:
    assert finding().ask("GET", target).status == 400


def test_system_topics_are_named_as_they_are() -> None:
    client = finding()
    assert client.ask("GET", "/v1/topics/RMQ_SYS_TRACE_TOPIC/messages?key=k").status == 200
    command = last(client.commands, QueryMessages)
    assert command.topic == "RMQ_SYS_TRACE_TOPIC"


def test_a_topic_that_is_not_there() -> None:
    client = Client(lambda command: Refused(command.ticket, Failure(ErrorCode.TOPIC_NOT_FOUND)))  # type: ignore[attr-defined]
    assert client.ask("GET", MESSAGES + "?key=k").status == 404
