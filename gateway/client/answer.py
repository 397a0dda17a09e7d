"""Replies of remoting servers as values and as errors.

ClientError                root of all errors that the client raises
  UnreachableError         no server answered in time; the text has the address and the last error
  TlsError                 TLS with a server fails as it would at the next attempt: certificates, or no TLS there
  KeyPlaceError            there is no access key where it should be
  RejectedError            a server answered with an error; has `code` and `remark` of the reply
    UnknownTopicError      the name server has no route to the topic
    AccessError            the user may not do it
      KeyRefusedError      the server requires an access key, or refuses the given one
      NotPermittedError    the user of the access key lacks a right
  GarbledError             a malformed reply, or the server speaks another protocol

TlsError, KeyPlaceError and AccessError are raised at once: they are never retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import orjson

from domain.errors import GatewayError
from domain.refusal import TLS_ONLY
from domain.topic.topic import PERM_READ
from protocols.remoting.wire.frame import Frame

SUCCESS: Final = 0
SYSTEM_ERROR: Final = 1
NO_PERMISSION: Final = 16
TOPIC_NOT_EXIST: Final = 17
PULL_STATUS: Final[Mapping[int, str]] = {0: "FOUND", 19: "EMPTY", 20: "NO_MATCH", 21: "MOVED"}
"""Response code of a pull -> PullReply.status; other codes are errors."""
_LACKS_RIGHT: Final = ("no permission", "forbidden", "no acl permission")
"""Parts of remarks with NO_PERMISSION by which servers say that the user is known, and lacks a right."""


class ClientError(GatewayError):
    """Root of all errors that the client raises."""


class UnreachableError(ClientError):
    """No server answered in time."""


class TlsError(ClientError):
    """TLS with a server fails as it would at the next attempt: certificates, or no TLS there."""


class KeyPlaceError(ClientError):
    """There is no access key where it should be."""


class GarbledError(ClientError):
    """A malformed reply."""


class RejectedError(ClientError):
    """A server answered with an error."""

    def __init__(self, what: str, code: int, remark: str) -> None:
        super().__init__(f"{what}: code {code} {remark}".rstrip())
        self.code = code
        self.remark = remark


class UnknownTopicError(RejectedError):
    """No route to `topic`: it does not exist, or all brokers that have it are offline."""

    def __init__(self, topic: str, nameserver: str, remark: str) -> None:
        super().__init__(f"topic {topic!r} is not known to nameserver {nameserver}", TOPIC_NOT_EXIST, remark)
        self.topic = topic


class AccessError(RejectedError):
    """The user may not do it. `remedy`: what to do, for the text."""

    def __init__(self, what: str, code: int, remark: str, remedy: str) -> None:
        super().__init__(what, code, f"{remark.rstrip('.')}. {remedy}")
        self.remark = remark


class KeyRefusedError(AccessError):
    """The server requires an access key, or refuses the given one."""


class NotPermittedError(AccessError):
    """The user of the access key lacks a right."""


class QueueRoute(NamedTuple):
    """One queue of one topic on one broker.

    queue_id  queue id, from 0
    """

    broker: str
    topic: str
    queue_id: int


class TopicRoute(NamedTuple):
    """The route of a topic.

    queues     readable queues, sorted
    addresses  broker name -> host:port of its master
    offline    readable queues whose broker has no master that answers, sorted
    followers  broker name -> host:port of each of its slaves
    """

    queues: list[QueueRoute]
    addresses: dict[str, str]
    offline: Sequence[QueueRoute] = ()
    followers: Mapping[str, Sequence[str]] = MappingProxyType({})


Epoch = int | tuple[int, int]
"""Epoch of a topic, which distinguishes it from a later topic of the same name.

An integer: the epoch reported by a Headgate node. A pair: other brokers have no epochs, so it is (offset, store time in epoch
milliseconds or -1) of the first message of one queue, which only grow together (`is_remade`).
"""


class Edges(NamedTuple):
    """The ends of a queue.

    first  offset of the first stored message
    after  offset that the next message gets
    epoch  epoch of the topic that the offsets belong to
    """

    first: int
    after: int
    epoch: Epoch


def is_remade(before: Epoch | None, now: Epoch) -> bool:
    """True when the topic was deleted and created again between the two epochs. None, and epochs of both kinds: not known."""
    if isinstance(before, int) and isinstance(now, int):
        return before != now
    if isinstance(before, tuple) and isinstance(now, tuple):
        return now[0] < before[0] or (now[0] == before[0] and min(now[1], before[1]) >= 0 and now[1] != before[1])
    return False


class PullReply(NamedTuple):
    """The reply to one pull.

    status       FOUND; EMPTY: the offset is the end of the queue; NO_MATCH: no message before `next_offset` matches;
                 MOVED: the offset is out of range; REMADE: the broker does not have the topic, or has another one of its name
    body         records, one after the other (domain.message.record); b"" unless FOUND
    min_offset   offset of the first stored message of the queue
    max_offset   offset that the next message of the queue gets
    """

    status: str
    body: bytes
    next_offset: int
    min_offset: int
    max_offset: int


class SendResult(NamedTuple):
    """The reply to one send.

    offset      offset of the message in the queue
    message_id  unique id of the message; without one, its offset message id
    """

    queue: QueueRoute
    offset: int
    message_id: str


def is_refusal(frame: Frame) -> bool:
    """True when the reply refuses the user. Brokers with RocketMQ's first ACL say SYSTEM_ERROR and the name of an exception."""
    return frame.code == NO_PERMISSION or (frame.code == SYSTEM_ERROR and "AclException" in frame.remark)


def rejected(frame: Frame, what: str, key: object = None) -> ClientError:
    """The error for a reply whose code is no success; `what` was requested, with the access key of place `key`."""
    if frame.code == NO_PERMISSION and TLS_ONLY in frame.remark:
        return TlsError(f"{what}: {TLS_ONLY}. Connect with TLS (tls=true, tlsCaFile).")
    if not is_refusal(frame):
        return RejectedError(what, frame.code, frame.remark)
    if any(text in frame.remark.lower() for text in _LACKS_RIGHT):
        remedy = "Grant the user this right (docs/access.md); the query needs Sub on its topics and on group TOOLS_CONSUMER."
        return NotPermittedError(what, frame.code, frame.remark, remedy)
    if key is None:
        remedy = "The server controls access, and there is no access key: give one (accessKeyFile, accessKeyEnv)."
    else:
        remedy = f"Correct the access key in {key}; it is read at each connection, and a refused one is not tried again."
    return KeyRefusedError(what, frame.code, frame.remark, remedy)


def checked(frame: Frame, what: str, key: object = None) -> Frame:
    """`frame` when its code is SUCCESS. Raises what `rejected` returns."""
    if frame.code != SUCCESS:
        raise rejected(frame, what, key)
    return frame


def fields_of(frame: Frame) -> dict[str, str]:
    """The ext fields. Raises GarbledError when they are malformed."""
    found = frame.fields()
    if found is None:
        raise GarbledError(f"an answer with malformed fields (code {frame.code})")
    return found


def integer(frame: Frame, name: str) -> int:
    """An integer ext field. Raises GarbledError when it is missing or not an integer."""
    try:
        return int(fields_of(frame)[name])
    except (KeyError, ValueError):
        raise GarbledError(f"an answer without a number {name!r} (code {frame.code})") from None


def pulled(frame: Frame) -> PullReply:
    """The reply to a pull, whose code is in PULL_STATUS. Raises GarbledError."""
    status = PULL_STATUS[frame.code]
    numbers = (integer(frame, name) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    return PullReply(status, frame.body if status == "FOUND" else b"", *numbers)


def document(frame: Frame) -> dict[str, object]:
    """The body as a JSON object. Raises GarbledError when it is not one."""
    try:
        found = orjson.loads(frame.body)
    except orjson.JSONDecodeError as error:
        raise GarbledError(f"an answer whose body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise GarbledError("an answer whose body is not a JSON object")
    return found


def items(found: Mapping[str, object], name: str) -> list[object]:
    """A list in a JSON object; an empty list when it is absent or of another type."""
    items = found.get(name)
    return items if isinstance(items, list) else []


def route_from(topic: str, found: Mapping[str, object]) -> TopicRoute:
    """TopicRouteData -> the route. Raises GarbledError."""
    addresses: dict[str, str] = {}
    followers: dict[str, list[str]] = {}
    queues: list[QueueRoute] = []
    offline: list[QueueRoute] = []
    try:
        for one in items(found, "brokerDatas"):
            if isinstance(one, dict) and "0" in one["brokerAddrs"]:
                name = str(one["brokerName"])
                addresses[name] = str(one["brokerAddrs"]["0"])
                followers[name] = sorted(str(where) for each, where in one["brokerAddrs"].items() if each != "0")
        for data in items(found, "queueDatas"):
            if isinstance(data, dict) and int(data["perm"]) & PERM_READ:
                broker = str(data["brokerName"])
                there = queues if broker in addresses else offline
                there += [QueueRoute(broker, topic, number) for number in range(int(data["readQueueNums"]))]
    except (KeyError, TypeError, ValueError) as error:
        raise GarbledError(f"a route of {topic} that cannot be read: {error!r}") from error
    return TopicRoute(sorted(queues), addresses, sorted(offline), followers)


def bounds_from(broker: str, topic: str, found: Mapping[str, object]) -> dict[QueueRoute, Edges]:
    """The body of a reply to request code 30000 -> the ends of the topic's queues. Raises GarbledError."""
    try:
        epoch = int(str(found["epoch"]))
        rows = [[int(number) for number in row] for row in items(found, "queues") if isinstance(row, list)]
        return {QueueRoute(broker, topic, number): Edges(first, after, epoch) for number, first, after in rows}
    except (KeyError, TypeError, ValueError) as error:
        raise GarbledError(f"bounds of {topic} that cannot be read: {error!r}") from error
