"""The operations that protocols offer, and the rights that each needs, whatever protocol asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from domain.access.access import CLUSTER, CREATE, DELETE, EVERY, GET, GROUP, LIST, PUB, SUB, TOPIC, UPDATE, Need
from tests.simulation.matrix.place import GROUP_NAME, TOPIC_NAME


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client does.

    needs        all of them must be granted; of the actions of one, any is enough
    own          True: it is about something that the client has made, which others do not see; `needs` were needed to make it
    again        True: they are needed again
    privileged   True: it is for Super users
    """

    needs: tuple[Need, ...] = ()
    own: bool = False
    again: bool = True
    privileged: bool = False

    @property
    def rights(self) -> str:
        """The needs in words."""
        if self.privileged:
            return "Super users"
        words = [_words(need) for need in self.needs] if self.again else []
        if self.own:
            words.insert(0, "its own")
        return ", ".join(words) if words else "none"


def _words(need: Need) -> str:
    where = (
        "the other group"
        if need.name == "made"
        else {TOPIC: "the topic", GROUP: "the group", CLUSTER: "the cluster"}[need.kind]
    )
    where = "all topics" if need.kind == TOPIC and need.name == EVERY else where
    return f"{' or '.join(f'`{action}`' for action in need.actions)} on {where}"


def _topic(*actions: str) -> Need:
    return Need(TOPIC, TOPIC_NAME, actions)


def _group(*actions: str) -> Need:
    return Need(GROUP, GROUP_NAME, actions)


def _cluster(*actions: str) -> Operation:
    return Operation((Need(CLUSTER, EVERY, actions),))


def _all_topics(*actions: str) -> Need:
    return Need(TOPIC, EVERY, actions)


_RECEIVE: Final = Operation((_group(SUB), _topic(SUB)))

OPERATIONS: Final[Mapping[str, Operation]] = {
    "send": Operation((_topic(PUB),)),
    "end a transaction": Operation((_topic(PUB),)),
    "recall": Operation((_topic(PUB),)),
    "remove the latest value": Operation((_topic(PUB),)),
    "read the latest value": Operation((_topic(SUB),)),
    "change a value that is known": Operation((_topic(SUB), _topic(PUB))),
    "subscribe": Operation((_topic(SUB),)),
    "subscribe to all topics": Operation((_all_topics(SUB),)),
    "read by offset": Operation((_topic(SUB),)),
    "hold messages": Operation((_topic(SUB),)),
    "find by key": Operation((_topic(SUB, GET),)),
    "read by position in the log": Operation((_all_topics(SUB, GET),)),
    "receive": _RECEIVE,
    "acknowledge": _RECEIVE,
    "move the end of a lease": Operation((_group(SUB),)),
    "move to the dead letters": _RECEIVE,
    "send back": _RECEIVE,
    "be a member of a group": _RECEIVE,
    "leave a group": Operation((_group(SUB),)),
    "lock queues": _RECEIVE,
    "subscribe to lite topics": _RECEIVE,
    "read an assignment": Operation((_group(SUB, GET), _topic(PUB, SUB, GET))),
    "subscribe a webhook": Operation((_topic(SUB),)),
    "subscribe a webhook to a group": Operation((_topic(SUB), _group(SUB))),
    "list subscriptions": Operation(own=True),
    "read, test, pause or delete a subscription": Operation((_topic(SUB),), own=True, again=False),
    "resume or replace a subscription": Operation((_topic(SUB),), own=True),
    "read a topic": Operation((_topic(PUB, SUB, GET),)),
    "read the time of the first message": Operation((_topic(SUB, GET),)),
    "list the groups of a topic": Operation((_topic(GET),)),
    "list topics": _cluster(LIST),
    "create or change a topic": Operation((_topic(CREATE),)),
    "delete a topic": Operation((_topic(DELETE),)),
    "make or change a topic of CoAP": Operation((_topic(PUB),)),
    "read a topic of CoAP": Operation((_topic(PUB, SUB),)),
    "list topics of CoAP": Operation(),
    "read a group": Operation((_group(SUB, GET),)),
    "list groups": _cluster(LIST),
    "create or change a group": Operation((_group(CREATE),)),
    "delete a group": Operation((_group(DELETE),)),
    "read the progress of a group": Operation((_group(SUB, GET),)),
    "read the progress on a topic": Operation((_group(SUB, GET), _topic(SUB, GET))),
    "read the clients of a group": Operation((_group(GET),)),
    "read what clients do with a topic": Operation((_group(GET), _topic(GET))),
    "have a client handle a message": Operation((_group(SUB, GET), _all_topics(SUB, GET))),
    "change how a group receives": Operation((_group(UPDATE),)),
    "forbid a group to read a topic": Operation((_group(UPDATE), _topic(UPDATE))),
    "set a position": Operation((_group(SUB, UPDATE), _topic(SUB, UPDATE))),
    "reset a group": Operation((_group(UPDATE), _topic(SUB, UPDATE))),
    "redrive a group": Operation((_group(UPDATE),)),
    "copy positions to a group": Operation((_group(SUB, GET), Need(GROUP, "made", (UPDATE,)), _topic(SUB, UPDATE))),
    "list users": _cluster(GET, LIST),
    "change users": _cluster(UPDATE),
    "list policies": _cluster(GET, LIST),
    "change policies": _cluster(UPDATE),
    "read the node": _cluster(GET),
    "change the node": _cluster(UPDATE),
    "be a gateway": Operation(privileged=True),
    "connect": Operation(),
    "read the description": Operation(),
}
"""Name -> what it needs, in the order of the page."""
