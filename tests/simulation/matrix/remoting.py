"""Remoting: every request code, of brokers, name servers and Spark's source."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from domain.message import property as properties
from protocols.remoting import codes
from protocols.remoting.connection import SENDS
from protocols.remoting.dispatch import READERS
from tests.simulation.matrix.place import GROUP_NAME, TOPIC_NAME, Person, Place
from tests.simulation.test_forbidden import MADE, SEND
from tests.simulation.test_forbidden import REQUESTS as CONTENTS
from tests.simulation.tool import Tool

EMPTY: Final = frozenset({codes.SUCCESS, codes.PULL_NOT_FOUND, codes.POLLING_TIMEOUT})
"""What those are told who may ask, though there may be no message."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    operation   the row of the matrix that it belongs to
    code        what is asked
    fields      in the place of the fields that `test_forbidden` sends; None: those
    body        in the place of its body; None: that
    alone       True: it leaves the node otherwise than it was, so it is sent to a node of its own
    """

    operation: str
    code: int
    fields: Mapping[str, str] | None = None
    body: object = None
    alone: bool = False


_OPERATIONS: Final[Mapping[str, tuple[int, ...]]] = {
    "send": (codes.SEND, codes.SEND_V2, codes.SEND_BATCH, codes.SEND_REPLY, codes.SEND_REPLY_V2),
    "recall": (codes.RECALL,),
    "read by offset": (codes.GET_ROWS,),
    "hold messages": (codes.HOLD_QUEUES,),
    "find by key": (codes.QUERY_MESSAGE,),
    "read by position in the log": (codes.VIEW_MESSAGE,),
    "receive": (codes.PULL, codes.LITE_PULL, codes.POP, codes.POP_LITE, codes.NOTIFICATION),
    "acknowledge": (codes.ACK, codes.BATCH_ACK, codes.ACK_LITE),
    "move the end of a lease": (codes.CHANGE_INVISIBLE,),
    "be a member of a group": (codes.HEARTBEAT,),
    "leave a group": (codes.UNREGISTER_CLIENT,),
    "lock queues": (codes.LOCK_QUEUES, codes.UNLOCK_QUEUES),
    "read an assignment": (codes.QUERY_ASSIGNMENT,),
    "subscribe to lite topics": (codes.LITE_SUBSCRIPTION,),
    "have a client handle a message": (codes.CONSUME_DIRECTLY,),
    "read a topic": (
        codes.SEARCH_OFFSET, codes.GET_MAX_OFFSET, codes.GET_MIN_OFFSET, codes.GET_TOPIC_BOUNDS, codes.GET_TOPIC,
        codes.GET_TOPIC_STATS, codes.GET_ROUTE,
    ),
    "read the time of the first message": (codes.GET_EARLIEST_TIME,),
    "list the groups of a topic": (codes.GET_CONSUMERS, codes.GET_LITE_PARENT, codes.GET_LITE_TOPIC),
    "list topics": (
        codes.GET_ALL_TOPICS, codes.GET_BROKER_SYSTEM_TOPICS, codes.GET_TOPICS, codes.GET_TOPICS_OF_CLUSTER,
        codes.GET_UNIT_TOPICS, codes.GET_UNIT_SUBSCRIBED, codes.GET_UNIT_SUBSCRIBED_ALONE,
    ),
    "delete a topic": (codes.DELETE_TOPIC, codes.DELETE_TOPIC_ROUTE),
    "read a group": (codes.GET_GROUP, codes.GET_MEMBERS),
    "list groups": (codes.GET_ALL_GROUPS, codes.GET_ALL_MODES),
    "read the clients of a group": (
        codes.GET_RUNNING_INFO, codes.GET_CONSUMER_CONNECTIONS, codes.GET_CONSUMED, codes.GET_SUBSCRIPTION,
        codes.GET_LITE_GROUP,
    ),
    "read what clients do with a topic": (codes.GET_CONSUMER_STATUS, codes.GET_TIME_SPANS, codes.GET_LITE_CLIENT),
    "delete a group": (codes.DELETE_GROUP,),
    "change how a group receives": (codes.SET_REQUEST_MODE, codes.DISPATCH_LITE),
    "read the progress on a topic": (codes.QUERY_OFFSET, codes.GET_PROGRESS, codes.PEEK, codes.POLLING_INFO),
    "set a position": (codes.UPDATE_OFFSET,),
    "reset a group": (codes.RESET_OFFSET,),
    "copy positions to a group": (codes.CLONE_OFFSETS,),
    "list users": (codes.GET_USER, codes.LIST_USER),
    "list policies": (codes.GET_ACL, codes.LIST_ACL),
    "change policies": (codes.CREATE_ACL, codes.UPDATE_ACL, codes.DELETE_ACL),
    "read the node": (
        codes.GET_LITE_NODE, codes.GET_PRODUCER_CONNECTIONS, codes.GET_PRODUCERS, codes.GET_RATES, codes.GET_BACKLOG,
        codes.GET_ALL_OFFSETS, codes.QUERY_CORRECTION, codes.GET_HA_STATUS, codes.GET_BROKER_EPOCHS, codes.GET_COLD_READS,
        codes.CLEAN_QUEUES, codes.CLEAN_TOPICS, codes.CLEAN_LOG, codes.GET_BROKER_CONFIG, codes.GET_RUNTIME_INFO,
        codes.GET_CLUSTER, codes.GET_SYSTEM_TOPICS, codes.GET_BROKER_MEMBERS, codes.GET_KV, codes.LIST_KV,
        codes.GET_NAMESRV_CONFIG,
    ),
    "change the node": (
        codes.RESUME_TRANSACTION, codes.PUT_KV, codes.DELETE_KV, codes.REGISTER_BROKER, codes.REGISTER_PAGE,
        codes.UNREGISTER_BROKER, codes.QUERY_DATA_VERSION, codes.BROKER_HEARTBEAT,
    ),
    "be a gateway": (codes.GREET_NODE,),
}  # fmt: skip
"""Requests as `test_forbidden` sends them."""
_USER: Final = {"username": "{user}"}
_OWN: Final = (
    Request("create or change a topic", codes.UPDATE_TOPIC, {**MADE, "topic": TOPIC_NAME}),
    Request(
        "create or change a topic", codes.UPDATE_TOPIC_LIST,
        body={"topicConfigList": [{"topicName": TOPIC_NAME, "readQueueNums": 1, "writeQueueNums": 1}]},
    ),
    Request("create or change a group", codes.UPDATE_GROUP, body={"groupName": GROUP_NAME}),
    Request("create or change a group", codes.UPDATE_GROUP_LIST, body={"groupConfigList": [{"groupName": GROUP_NAME}]}),
    Request("change users", codes.CREATE_USER, {"username": "eve{serial}"},
            {"username": "eve{serial}", "password": "secret", "userType": "Normal"}),
    Request("change users", codes.UPDATE_USER, _USER, {**_USER, "password": "another"}),
    Request("change users", codes.DELETE_USER, _USER),
    Request("send back", codes.SEND_BACK, {"offset": "{position}", "group": GROUP_NAME, "delayLevel": "0"}),
    Request("end a transaction", codes.END_TRANSACTION, {
        "producerGroup": TOPIC_NAME, "tranStateTableOffset": "-1", "commitLogOffset": "-1", "commitOrRollback": "8",
        "transactionId": "{transaction}", "msgId": "",
    }),
    Request("forbid a group to read a topic", codes.SET_READABLE, alone=True),
    Request("change the node", codes.UPDATE_BROKER_CONFIG, alone=True),
    Request("change the node", codes.UPDATE_NAMESRV_CONFIG, alone=True),
    Request("change the node", codes.WIPE_WRITE, alone=True),
    Request("change the node", codes.ADD_WRITE, alone=True),
)  # fmt: skip

REQUESTS: Final[Mapping[int, Mapping[str, Request]]] = {
    request.code: {str(request.code): request}
    for request in sorted(
        [*(Request(name, code) for name, every in _OPERATIONS.items() for code in every), *_OWN], key=lambda each: each.code
    )
}
"""Code -> the request."""
OPEN: Final = frozenset({codes.CHECK_CLIENT})
"""A check of the syntax of a filter."""
SPARK: Final = frozenset(
    {
        codes.PULL, codes.SEARCH_OFFSET, codes.GET_MAX_OFFSET, codes.GET_MIN_OFFSET, codes.GET_EARLIEST_TIME, codes.GET_ROUTE,
        codes.GET_TOPICS, codes.SEND_V2, codes.GET_TOPIC_BOUNDS, codes.HOLD_QUEUES,
    }
)  # fmt: skip
"""What Spark's source and the client of the connectors ask (`gateway/client/request.py`)."""


def served() -> set[int]:
    """Codes that are answered."""
    return set(READERS) | set(SENDS)


@dataclass
class Remoting:
    """Asks, each person on a connection of its own."""

    place: Place
    tools: dict[Person, Tool] = field(default_factory=dict)

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Send a request -> `done`, or the code of the answer."""
        fields, body = CONTENTS.get(request.code, ({}, b""))
        fields = dict(fields if request.fields is None else request.fields)
        body = body if request.body is None else request.body
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        makers: tuple[tuple[str, Callable[[], str]], ...] = (
            ("{serial}", lambda: str(self.place.serial())), ("{user}", self.place.user), ("{position}", self._position),
            ("{transaction}", self.place.transaction),
        )  # fmt: skip
        for name, make in makers:
            if name.encode() in data or any(name in value for value in fields.values()):
                made = make()
                data = data.replace(name.encode(), made.encode())
                fields = {key: value.replace(name, made) for key, value in fields.items()}
        tool = self.tools.get(who)
        if tool is None:
            user, password = who if who.name else ("", "")
            tool = self.tools[who] = Tool(self.place.world, f"tool-{who.name}", user, password)
        code = tool.call(request.code, fields, data).code
        return str(code) if code not in EMPTY else "done"

    def _position(self) -> str:
        """The position of a message of the topic in the log."""
        self.place.sent += 1
        named = properties.encode([("UNIQ_KEY", str(self.place.serial()))]).decode()
        told = self.place.root.done(codes.SEND_V2, {**SEND, "i": named}, b"again")
        return str(int(told["msgId"][-16:], 16))
