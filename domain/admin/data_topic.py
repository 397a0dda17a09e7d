"""Topics of CoAP's publish-subscribe draft as clients make, read, change and delete them, their subscribers, and the answers.

Who may publish on the path of a topic may make, change and delete it; who may publish or subscribe there may read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from domain.command import TicketedCommand
from domain.event import TicketedEvent
from domain.message.message import Message
from domain.topic.data_topic import DataTopic, TopicProperties


@dataclass(slots=True)
class MakeDataTopic(TicketedCommand):
    """Make a topic -> DataTopicFound. With its first data it is made in one commit, all or nothing.

    name    its path, which no other topic has
    host    network of the client, which the topic counts for when access is not controlled
    first   the message with `given.initialize`, which sets the latest value of the path; None: half created

    Errors: ARGUMENT_ILLEGAL (a property, or the name is in use), QUOTA, and those of Send.
    """

    name: str
    given: TopicProperties
    host: str = ""
    first: Message | None = None


@dataclass(slots=True)
class ChangeDataTopic(TicketedCommand):
    """Change the properties of a topic -> DataTopicFound.

    name      must be its name; "": not given
    whole     True: `given` takes the place of all properties; False: those that are not given stay

    Subscribers beyond a smaller maximum are refused, the newest first. Errors: TOPIC_NOT_FOUND, ARGUMENT_ILLEGAL, QUOTA,
    CHANGED (another client has changed it at the same time).
    """

    id: str
    given: TopicProperties
    name: str = ""
    whole: bool = False


@dataclass(slots=True)
class QueryDataTopic(TicketedCommand):
    """One topic -> DataTopicFound. Errors: TOPIC_NOT_FOUND.

    value   True: say too whether it has data
    """

    id: str
    value: bool = False


@dataclass(slots=True)
class ListDataTopics(TicketedCommand):
    """The topics that the principal may read and that match (domain.topic.data_topic.matches) -> DataTopicIds."""

    name: str = ""
    id: str = ""
    given: TopicProperties = field(default_factory=TopicProperties)
    prefixes: bool = False


@dataclass(slots=True)
class DeleteDataTopic(TicketedCommand):
    """Remove the data of a topic, and end its subscriptions -> Done. Errors: TOPIC_NOT_FOUND.

    data_only   True: the topic stays, half created; False: it is deleted too
    """

    id: str
    data_only: bool = False


@dataclass(slots=True)
class JoinDataTopic(TicketedCommand):
    """Count as a subscriber of a topic until LeaveDataTopic -> DataTopicJoined, again after each change of its properties.

    Refused TOPIC_NOT_FOUND ends it: the topic or its data is deleted, or there are too many subscribers now. Messages come by a
    Watch of the path. Nothing is stored. Errors: TOPIC_NOT_FOUND, QUOTA (there are as many subscribers as the topic takes).
    """

    id: str


@dataclass(slots=True)
class LeaveDataTopic(TicketedCommand):
    """End the JoinDataTopic whose ticket equals this one. No answer."""


@dataclass(slots=True)
class DataTopicFound(TicketedEvent):
    """One topic as it is now.

    has_value   True: there is data; False: there is none, or nobody asked
    """

    topic: DataTopic
    has_value: bool = False


@dataclass(slots=True)
class DataTopicIds(TicketedEvent):
    """The ids of topics, in the order in which they were made."""

    ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class DataTopicJoined(TicketedEvent):
    """The topic that its subscriber counts for, as it is now."""

    topic: DataTopic
