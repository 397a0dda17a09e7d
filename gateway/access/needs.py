"""The needs of the commands that every node has: command class -> needs, each of which has to be granted.

A command that is not here is for Super users. Topics follow RocketMQ's AuthorizationContextBuilder: sending is Pub, everything
that a consumer does is Sub on the group and on the topic, and a group's retry topic counts as the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from domain import command, transaction
from domain.access import access
from domain.access.access import CLUSTER, CREATE, DELETE, EVERY, GET, GROUP, LIST, PUB, SUB, TOPIC, UPDATE, Need
from domain.address import RETRY_PREFIX, TEMPLATE_TOPIC, topic_of_path
from domain.admin import broker as broker_admin
from domain.admin import client as client_admin
from domain.admin import group as group_admin
from domain.admin import message as message_admin
from domain.admin import oscore as oscore_admin
from domain.admin import position as position_admin
from domain.admin import replica as replica_admin
from domain.admin import topic as topic_admin
from domain.admin import user as user_admin
from domain.client import channel, client_inquiry, membership, mqtt_session, node
from domain.command import Command
from domain.controller import controller_list as controller_book
from domain.controller import gateway_search
from domain.controller import peer as controller_peer
from domain.controller import request as controller_request
from domain.filter.path_matching import path_of
from domain.nameserver import route
from domain.replication import message as replication
from domain.topic import lite

PUBLISH: Final = (PUB,)
SUBSCRIBE: Final = (SUB,)
READ: Final = (SUB, GET)
MOVE: Final = (SUB, UPDATE)
KNOW: Final = (PUB, SUB, GET)


class PathNeed(NamedTuple):
    """A right on an MQTT path, or with Sub on a filter. Rules decide first; without a matching rule `need` decides."""

    action: str
    path: str
    need: Need


Needs = Callable[[Any], Iterable[Need | PathNeed]]


class CommandNeeds(NamedTuple):
    """The needs of commands, by class.

    table    command -> its needs, each of which has to be granted
    silent   commands that pass unchecked
    """

    table: Mapping[type[Command], Needs]
    silent: frozenset[type[Command]] = frozenset()


def of_topic(topic: str, actions: tuple[str, ...], group: str = "") -> Need:
    """The need for a topic; for the retry topic of a group, the need for that group.

    `group`: whose right is needed besides. In its retry topic for a topic, `%RETRY%group+topic`, the right to that topic is
    needed, which who receives from it has; so it is in one of version 1, `%RETRY%group_topic`, whose name begins that of
    another group's, too. Others need the right to `%RETRY%group+topic` by its own name.
    """
    if topic.startswith(lite.PREFIX):
        topic = lite.topic_of(topic)
    if not topic.startswith(RETRY_PREFIX):
        return Need(TOPIC, topic, actions)
    name = topic.removeprefix(RETRY_PREFIX)
    if "+" in name:
        return Need(TOPIC, name[len(group) + 1 :] if group and name.startswith(f"{group}+") else topic, actions)
    if group and name.startswith(f"{group}_"):
        return Need(TOPIC, name[len(group) + 1 :], actions)
    return Need(GROUP, name, SUBSCRIBE if actions == PUBLISH else actions)


def publish(path: str, topic: str) -> PathNeed:
    """The need of publishing to a path, which is stored in `topic`."""
    return PathNeed(PUB, path, of_topic(topic, PUBLISH))


def is_wild(pattern: str) -> bool:
    """True for a path filter that begins with a wildcard: it may match in every topic."""
    return pattern[:2] in ("+/", "#", "+")


def listen(pattern: str) -> PathNeed:
    """The need of subscribing to a path filter. A filter that begins with a wildcard needs the right to every topic."""
    return PathNeed(SUB, pattern, Need(TOPIC, EVERY if is_wild(pattern) else topic_of_path(pattern), SUBSCRIBE))


def subscription(found: mqtt_session.MqttSubscription) -> Iterable[Need | PathNeed]:
    """The needs of one subscription of a session."""
    if found.group:
        yield Need(GROUP, found.group, SUBSCRIBE)
    yield listen(found.pattern)


def of_cluster(*actions: str) -> Needs:
    """The need of `actions` at the cluster."""
    need = (Need(CLUSTER, EVERY, actions),)
    return lambda _: need


def of_group(*actions: str) -> Needs:
    """The need of `actions` at the command's `group`."""
    return lambda found: (Need(GROUP, found.group, actions),)


def of_its_topic(*actions: str) -> Needs:
    """The need of `actions` at the command's `topic`."""
    return lambda found: (of_topic(found.topic, actions),)


def _named(kind: str, *actions: str) -> Needs:
    """`PutTopic` and `PutGroup` carry the whole thing under the name of its kind."""
    field = kind.lower()
    return lambda found: (Need(kind, getattr(found, field).name, actions),)


def of_both(*actions: str) -> Needs:
    """The need of `actions` at the command's `topic`, and at its `group` if it has one."""

    def needs(found: Any) -> Sequence[Need]:
        topic = of_topic(found.topic, actions, found.group)
        if not found.group or topic == Need(GROUP, found.group, actions):
            return (topic,)
        return Need(GROUP, found.group, actions), topic

    return needs


def of_nothing(_: Any) -> Sequence[Need]:
    """No right: the use case checks by itself, or everybody may."""
    return ()


def _followed(found: command.FollowTopic) -> Iterable[Need | PathNeed]:
    """A filter that cannot match in the topic gives no right to it: the answer discloses the ends of the topic's queues."""
    if found.pattern:
        yield listen(found.pattern)
        if is_wild(found.pattern) or topic_of_path(found.pattern) == found.topic:
            return
    yield of_topic(found.topic, SUBSCRIBE)


def _moved(found: command.CommitOffsets) -> Iterable[Need]:
    yield Need(GROUP, found.group, MOVE)
    for topic in dict.fromkeys(topic for topic, _, _ in found.offsets):
        yield of_topic(topic, MOVE, found.group)


def _beat(found: membership.Heartbeat) -> Iterable[Need]:
    for joined in found.consumers:
        yield Need(GROUP, joined.group, SUBSCRIBE)
        for subscription in joined.subscriptions:
            yield of_topic(subscription.topic, SUBSCRIBE, joined.group)


def _locked(found: membership.LockQueues) -> Iterable[Need]:
    yield Need(GROUP, found.group, SUBSCRIBE)
    for topic in dict.fromkeys(topic for _, topic, _ in found.queues):
        yield of_topic(topic, SUBSCRIBE, found.group)


def _left(found: membership.Leave) -> Iterable[Need]:
    return (Need(GROUP, found.consumer_group, SUBSCRIBE),) if found.consumer_group else ()


def _known(found: topic_admin.QueryTopic | route.QueryRoute) -> Iterable[Need]:
    """RocketMQ's producers look up the template topic before they send to a topic that does not exist: no need."""
    return () if found.topic == TEMPLATE_TOPIC else (of_topic(found.topic, KNOW),)


def _attached(found: mqtt_session.Attach) -> Iterable[PathNeed]:
    if found.will is None:
        return ()
    message = found.will.message
    return (publish(path_of(message.topic, message.properties), message.topic),)


def _progress(found: position_admin.QueryProgress) -> Iterable[Need]:
    yield Need(GROUP, found.group, READ)
    if found.topic:
        yield of_topic(found.topic, READ, found.group)


def _cloned(found: position_admin.ClonePositions) -> Iterable[Need]:
    yield Need(GROUP, found.source, READ)
    yield Need(GROUP, found.target, (UPDATE,))
    yield of_topic(found.topic or EVERY, MOVE)


def _reset(found: position_admin.ResetPositions) -> Iterable[Need]:
    return Need(GROUP, found.group, (UPDATE,)), of_topic(found.topic, MOVE, found.group)


def _anywhere(found: Any) -> Sequence[Need]:
    """Reading a message by its position in the log may reach any topic."""
    return (Need(TOPIC, EVERY, READ),)


def _one_consumed(found: client_admin.ConsumeDirectly) -> Iterable[Need]:
    return Need(GROUP, found.group, READ), *_anywhere(found)


TABLE: Final[dict[type[Command], Needs]] = {
    command.Pull: of_both(SUB),
    command.FollowTopic: _followed,
    command.AwaitSettled: of_both(SUB),
    command.HoldQueues: of_its_topic(SUB),
    command.Receive: of_both(SUB),
    command.Acknowledge: of_both(SUB),
    command.Extend: of_group(SUB),
    command.DeadLetter: of_both(SUB),
    command.SendRetry: of_group(SUB),
    command.CommitOffsets: _moved,
    command.QueryOffset: of_both(SUB, GET),
    topic_admin.QueryBounds: of_its_topic(*KNOW),
    topic_admin.SearchOffset: of_its_topic(*KNOW),
    message_admin.ViewMessage: _anywhere,
    topic_admin.QueryTopic: _known,
    topic_admin.ListTopics: of_cluster(LIST),
    topic_admin.PutTopic: _named(TOPIC, CREATE),
    topic_admin.DeleteTopic: of_its_topic(DELETE),
    group_admin.QueryGroup: of_group(SUB, GET),
    group_admin.FindGroup: of_group(SUB, GET),
    group_admin.ListGroups: of_cluster(LIST),
    group_admin.PutGroup: _named(GROUP, CREATE),
    group_admin.DeleteGroup: of_group(DELETE),
    membership.Heartbeat: _beat,
    membership.Leave: _left,
    membership.QueryMembers: of_group(SUB, GET),
    membership.LockQueues: _locked,
    group_admin.SetRequestMode: of_group(UPDATE),
    group_admin.QueryRequestMode: of_group(SUB, GET),
    group_admin.RedriveGroup: of_group(UPDATE),
    command.Watch: lambda found: (listen(found.pattern),),
    command.QueryLatest: lambda found: (listen(found.path),),
    command.DeleteLatest: lambda found: (publish(found.path, topic_of_path(found.path)),),
    group_admin.SetReadable: of_both(UPDATE),
    topic_admin.ChangeTopic: lambda found: (Need(TOPIC, found.change.name, (CREATE,)),),
    topic_admin.QueryEarliestStoreTime: of_its_topic(SUB, GET),
    command.AwaitMessages: of_both(SUB),
    position_admin.QueryProgress: _progress,
    broker_admin.QueryNodeCounters: of_cluster(GET),
    message_admin.QueryMessages: of_its_topic(SUB, GET),
    topic_admin.QueryConsumers: of_its_topic(GET),
    client_admin.QueryRunningInfo: of_group(GET),
    client_admin.ConsumeDirectly: _one_consumed,
    client_admin.QueryClientPositions: of_both(GET),
    client_inquiry.SendReply: lambda found: (of_topic(found.message.topic, PUBLISH),),
    position_admin.ResetPositions: _reset,
    position_admin.ClonePositions: _cloned,
    route.QueryRoute: _known,
    route.QueryCluster: of_cluster(GET),
    route.ListRoutes: of_cluster(LIST),
    route.DropRoute: of_its_topic(DELETE),
    route.RegisterBroker: of_cluster(UPDATE),
    route.RegisterPage: of_cluster(UPDATE),
    route.UnregisterBroker: of_cluster(UPDATE),
    route.RenewBroker: of_cluster(UPDATE),
    route.SetWritable: of_cluster(UPDATE),
    route.PutSetting: of_cluster(UPDATE),
    route.QuerySettings: of_cluster(GET),
    client_admin.QueryConnections: of_group(GET),
    client_admin.QueryProducers: of_cluster(GET),
    group_admin.QueryConsumedTopics: of_group(GET),
    position_admin.QueryTimeSpans: of_both(GET),
    topic_admin.QueryTopicState: of_its_topic(*KNOW),
    position_admin.QueryBacklog: of_cluster(GET),
    broker_admin.QueryRates: of_cluster(GET),
    message_admin.Peek: of_both(SUB, GET),
    group_admin.CountWaitingMessages: of_both(SUB, GET),
    group_admin.ListRequestModes: of_cluster(LIST),
    broker_admin.ChangeNodePolicy: of_cluster(UPDATE),
    broker_admin.QueryNodePolicy: of_cluster(GET),
    controller_request.ChangeGroup: of_cluster(UPDATE),
    controller_book.ChangeControllers: of_cluster(UPDATE),
    controller_request.QueryGroups: of_cluster(GET),
    controller_request.ListStoreGroups: of_cluster(GET),
    controller_request.QueryController: of_cluster(GET),
    controller_request.QueryControllers: of_cluster(GET),
    controller_request.HearReplica: of_cluster(UPDATE),
    gateway_search.HearGateway: of_cluster(GET),
    controller_request.QueryControllerSettings: of_cluster(GET),
    controller_request.ChangeControllerSettings: of_cluster(UPDATE),
    controller_peer.GreetController: of_cluster(UPDATE),
    controller_peer.TellController: of_cluster(UPDATE),
    replication.Follow: of_cluster(UPDATE),
    replication.LogHeld: of_cluster(UPDATE),
    replica_admin.QueryReplica: of_cluster(GET),
    replication.ReadLog: of_cluster(UPDATE),
    mqtt_session.Attach: _attached,
    mqtt_session.Unsubscribe: of_nothing,
    mqtt_session.ReleasePacketIds: of_nothing,
    transaction.RecallMessage: of_its_topic(PUB),
    transaction.ResumeTransaction: of_cluster(UPDATE),
    access.CheckAccess: lambda found: found.needs,
    access.Reauthenticate: of_nothing,
    user_admin.CreateUser: of_cluster(UPDATE),
    user_admin.UpdateUser: of_cluster(UPDATE),
    user_admin.DeleteUser: of_cluster(UPDATE),
    user_admin.ListUsers: of_cluster(GET, LIST),
    user_admin.PutPolicies: of_cluster(UPDATE),
    user_admin.DeletePolicies: of_cluster(UPDATE),
    user_admin.ListPolicies: of_cluster(GET, LIST),
    oscore_admin.PutOscoreContext: of_cluster(UPDATE),
    oscore_admin.DeleteOscoreContext: of_cluster(UPDATE),
    oscore_admin.QueryOscoreContext: of_cluster(GET, LIST),
    oscore_admin.ReserveOscoreRun: of_cluster(UPDATE),
    oscore_admin.HoldOscoreContext: of_cluster(UPDATE),
}
"""The gate checks Send, SendOnce, Subscribe, EndTransaction and SendBack itself: they carry several messages or subscriptions,
or name a message that only the log knows."""

SILENT: Final[frozenset[type[Command]]] = frozenset(
    {
        command.Disconnected, command.Unwatch, mqtt_session.Detach, mqtt_session.ConfirmDeliveries,
        mqtt_session.RejectDeliveries, mqtt_session.AcceptDeliveries, channel.ChannelCommand,
        client_inquiry.ClientAnswered, node.NodeFrame,
    }
)  # fmt: skip
"""Commands that pass unchecked: the end of a connection, a watch or a subscription, acknowledgements of deliveries, answers to
requests of the gateway, channel commands and frames of gateways, whose inner commands pass the gate themselves."""
NONE: Final = CommandNeeds({})
OWN: Final = CommandNeeds(TABLE, SILENT)
"""Those of the commands that every node has; installed use cases declare their own (`gateway/node/use_cases.py`)."""
