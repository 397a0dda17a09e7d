"""What remoting servers answer, as values and as errors.

ClientError                the root of what a client raises
  UnreachableError         no server answered in time; says which address and what the last attempt met
  RejectedError            a server answered with an error: `code` and `remark` as they came
    UnknownTopicError      there is no route to the topic
  GarbledError             an answer could not be understood, or the server speaks another protocol
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from domain.errors import GatewayError
from domain.topic import PERM_READ
from protocols.remoting.frame import Frame

SUCCESS: Final = 0
TOPIC_NOT_EXIST: Final = 17
PULL_STATUS: Final[Mapping[int, str]] = {0: "FOUND", 19: "EMPTY", 20: "NO_MATCH", 21: "MOVED"}
"""Code of an answer to a pull -> its meaning; any other code is an error."""


class ClientError(GatewayError):
    """The root of what a client raises."""


class UnreachableError(ClientError):
    """No server answered in time."""


class GarbledError(ClientError):
    """An answer that is not what the protocol says."""


class RejectedError(ClientError):
    """A server's error answer."""

    def __init__(self, what: str, code: int, remark: str) -> None:
        super().__init__(f"{what}: code {code} {remark}".rstrip())
        self.code = code
        self.remark = remark


class UnknownTopicError(RejectedError):
    """No route to the topic: it does not exist, or no broker that has it is alive."""

    def __init__(self, topic: str, nameserver: str, remark: str) -> None:
        super().__init__(f"topic {topic!r} is not known to nameserver {nameserver}", TOPIC_NOT_EXIST, remark)
        self.topic = topic


class QueueRoute(NamedTuple):
    """One queue of one topic on one broker."""

    broker: str
    topic: str
    queue_id: int


class TopicRoute(NamedTuple):
    """Where a topic lives: its readable queues in order, and the address of each broker."""

    queues: list[QueueRoute]
    addresses: dict[str, str]


class PullReply(NamedTuple):
    """One answer to a read.

    status       FOUND; EMPTY at the end of the queue; NO_MATCH nothing fits before `next_offset`; MOVED out of range
    body         records back to back (domain.record), b"" unless FOUND
    """

    status: str
    body: bytes
    next_offset: int
    min_offset: int
    max_offset: int


class SendResult(NamedTuple):
    """Where a message went."""

    queue: QueueRoute
    offset: int
    message_id: str


def checked(frame: Frame, what: str) -> Frame:
    """A frame that says SUCCESS. Raises RejectedError."""
    if frame.code != SUCCESS:
        raise RejectedError(what, frame.code, frame.remark)
    return frame


def fields_of(frame: Frame) -> dict[str, str]:
    """The ext fields. Raises GarbledError."""
    found = frame.fields()
    if found is None:
        raise GarbledError(f"an answer with malformed fields (code {frame.code})")
    return found


def integer(frame: Frame, name: str) -> int:
    """One numeric ext field. Raises GarbledError."""
    try:
        return int(fields_of(frame)[name])
    except (KeyError, ValueError):
        raise GarbledError(f"an answer without a number {name!r} (code {frame.code})") from None


def pulled(frame: Frame) -> PullReply:
    """The answer to a pull, whose code is one of PULL_STATUS."""
    status = PULL_STATUS[frame.code]
    numbers = (integer(frame, name) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    return PullReply(status, frame.body if status == "FOUND" else b"", *numbers)


def document(frame: Frame) -> dict[str, object]:
    """A body that is a JSON object. Raises GarbledError."""
    try:
        found = orjson.loads(frame.body)
    except orjson.JSONDecodeError as error:
        raise GarbledError(f"an answer whose body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise GarbledError("an answer whose body is not a JSON object")
    return found


def items(found: Mapping[str, object], name: str) -> list[object]:
    """A list in a JSON object, an empty one when it is absent."""
    items = found.get(name)
    return items if isinstance(items, list) else []


def route_from(topic: str, found: Mapping[str, object]) -> TopicRoute:
    """TopicRouteData -> Route: masters only, readable queues only. Raises GarbledError."""
    addresses: dict[str, str] = {}
    queues: list[QueueRoute] = []
    try:
        for broker in items(found, "brokerDatas"):
            if isinstance(broker, dict) and "0" in broker["brokerAddrs"]:
                addresses[str(broker["brokerName"])] = str(broker["brokerAddrs"]["0"])
        for data in items(found, "queueDatas"):
            if isinstance(data, dict) and int(data["perm"]) & PERM_READ and str(data["brokerName"]) in addresses:
                queues += [QueueRoute(str(data["brokerName"]), topic, number) for number in range(int(data["readQueueNums"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise GarbledError(f"a route of {topic} that cannot be read: {error!r}") from error
    return TopicRoute(sorted(queues), addresses)
