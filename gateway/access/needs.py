"""The one table of what every command needs: command class -> needs, each of which has to be granted.

A command that is not here is for Super users. Topics follow RocketMQ's AuthorizationContextBuilder: sending is Pub, everything
that a consumer does is Sub on the group and on the topic, and a group's retry topic counts as the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from domain import access, channel, client_inquiry, command, lite, membership, mqtt_session, node, transaction
from domain.access import CLUSTER, CREATE, DELETE, EVERY, GET, GROUP, LIST, PUB, SUB, TOPIC, UPDATE, Need
from domain.address import RETRY_PREFIX, TEMPLATE_TOPIC, topic_of_path
from domain.admin import broker as broker_admin
from domain.admin import client as client_admin
from domain.admin import data_topic
from domain.admin import group as group_admin
from domain.admin import lite as lite_admin
from domain.admin import message as message_admin
from domain.admin import oscore as oscore_admin
from domain.admin import position as position_admin
from domain.admin import replica as replica_admin
from domain.admin import subscription as subscription_admin
from domain.admin import topic as topic_admin
from domain.admin import user as user_admin
from domain.command import Command
from domain.controller import controller_list as controller_book
from domain.controller import peer as controller_peer
from domain.controller import request as controller_request
from domain.filter.path import path_of
from domain.nameserver import route
from domain.replication import message as replication

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


def _cluster(*actions: str) -> Needs:
    need = (Need(CLUSTER, EVERY, actions),)
    return lambda _: need


def _group(*actions: str) -> Needs:
    return lambda found: (Need(GROUP, found.group, actions),)


def _topic(*actions: str) -> Needs:
    return lambda found: (of_topic(found.topic, actions),)


def _named(kind: str, *actions: str) -> Needs:
    """`PutTopic` and `PutGroup` carry the whole thing under the name of its kind."""
    field = kind.lower()
    return lambda found: (Need(kind, getattr(found, field).name, actions),)


def _both(*actions: str) -> Needs:
    def needs(found: Any) -> Sequence[Need]:
        topic = of_topic(found.topic, actions, found.group)
        if not found.group or topic == Need(GROUP, found.group, actions):
            return (topic,)
        return Need(GROUP, found.group, actions), topic

    return needs


def _nothing(_: Any) -> Sequence[Need]:
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


def _subscribed(found: subscription_admin.PutSubscription) -> Iterable[Need | PathNeed]:
    """A subscription receives for its user, and publishes what sinks answer."""
    yield listen(found.source)
    if found.group:
        yield Need(GROUP, found.group, SUBSCRIBE)
    for topic in found.topics:
        yield of_topic(topic, PUBLISH)


def _one_consumed(found: client_admin.ConsumeDirectly) -> Iterable[Need]:
    return Need(GROUP, found.group, READ), *_anywhere(found)


TABLE: Final[dict[type[Command], Needs]] = {
    command.Pull: _both(SUB),
    command.FollowTopic: _followed,
    command.AwaitSettled: _both(SUB),
    command.HoldQueues: _topic(SUB),
    command.Receive: _both(SUB),
    command.Acknowledge: _both(SUB),
    command.Extend: _group(SUB),
    command.DeadLetter: _both(SUB),
    command.SendRetry: _group(SUB),
    command.CommitOffsets: _moved,
    command.QueryOffset: _both(SUB, GET),
    topic_admin.QueryBounds: _topic(*KNOW),
    topic_admin.SearchOffset: _topic(*KNOW),
    message_admin.ViewMessage: _anywhere,
    topic_admin.QueryTopic: _known,
    topic_admin.ListTopics: _cluster(LIST),
    topic_admin.PutTopic: _named(TOPIC, CREATE),
    topic_admin.DeleteTopic: _topic(DELETE),
    group_admin.QueryGroup: _group(SUB, GET),
    group_admin.FindGroup: _group(SUB, GET),
    group_admin.ListGroups: _cluster(LIST),
    group_admin.PutGroup: _named(GROUP, CREATE),
    group_admin.DeleteGroup: _group(DELETE),
    membership.Heartbeat: _beat,
    membership.Leave: _left,
    membership.QueryMembers: _group(SUB, GET),
    membership.LockQueues: _locked,
    group_admin.SetRequestMode: _group(UPDATE),
    group_admin.QueryRequestMode: _group(SUB, GET),
    subscription_admin.PutSubscription: _subscribed,
    subscription_admin.QuerySubscriptions: _nothing,
    subscription_admin.DeleteSubscription: _nothing,
    subscription_admin.ChangeStatus: _nothing,
    subscription_admin.GrantConsent: _nothing,
    subscription_admin.QueryAttempts: _nothing,
    subscription_admin.TestSubscription: _nothing,
    subscription_admin.Redrive: _nothing,
    subscription_admin.ResetSubscription: _nothing,
    data_topic.MakeDataTopic: _nothing,
    data_topic.ChangeDataTopic: _nothing,
    data_topic.QueryDataTopic: _nothing,
    data_topic.ListDataTopics: _nothing,
    data_topic.DeleteDataTopic: _nothing,
    data_topic.JoinDataTopic: _nothing,
    group_admin.RedriveGroup: _group(UPDATE),
    command.Watch: lambda found: (listen(found.pattern),),
    command.QueryLatest: lambda found: (listen(found.path),),
    command.DeleteLatest: lambda found: (publish(found.path, topic_of_path(found.path)),),
    group_admin.SetReadable: _both(UPDATE),
    topic_admin.ChangeTopic: lambda found: (Need(TOPIC, found.change.name, (CREATE,)),),
    topic_admin.QueryEarliestStoreTime: _topic(SUB, GET),
    command.AwaitMessages: _both(SUB),
    position_admin.QueryProgress: _progress,
    broker_admin.QueryNodeCounters: _cluster(GET),
    message_admin.QueryMessages: _topic(SUB, GET),
    topic_admin.QueryConsumers: _topic(GET),
    client_admin.QueryRunningInfo: _group(GET),
    client_admin.ConsumeDirectly: _one_consumed,
    client_admin.QueryClientPositions: _both(GET),
    client_inquiry.SendReply: lambda found: (of_topic(found.message.topic, PUBLISH),),
    position_admin.ResetPositions: _reset,
    position_admin.ClonePositions: _cloned,
    route.QueryRoute: _known,
    route.QueryCluster: _cluster(GET),
    route.ListRoutes: _cluster(LIST),
    route.DropRoute: _topic(DELETE),
    route.RegisterBroker: _cluster(UPDATE),
    route.RegisterPage: _cluster(UPDATE),
    route.UnregisterBroker: _cluster(UPDATE),
    route.RenewBroker: _cluster(UPDATE),
    route.SetWritable: _cluster(UPDATE),
    route.PutSetting: _cluster(UPDATE),
    route.QuerySettings: _cluster(GET),
    client_admin.QueryConnections: _group(GET),
    client_admin.QueryProducers: _cluster(GET),
    group_admin.QueryConsumedTopics: _group(GET),
    position_admin.QueryTimeSpans: _both(GET),
    topic_admin.QueryTopicState: _topic(*KNOW),
    position_admin.QueryBacklog: _cluster(GET),
    broker_admin.QueryRates: _cluster(GET),
    message_admin.Peek: _both(SUB, GET),
    group_admin.CountWaitingMessages: _both(SUB, GET),
    group_admin.ListRequestModes: _cluster(LIST),
    broker_admin.ChangeNodePolicy: _cluster(UPDATE),
    broker_admin.QueryNodePolicy: _cluster(GET),
    controller_request.ChangeGroup: _cluster(UPDATE),
    controller_book.ChangeControllers: _cluster(UPDATE),
    controller_request.QueryGroups: _cluster(GET),
    controller_request.ListStoreGroups: _cluster(GET),
    controller_request.QueryController: _cluster(GET),
    controller_request.QueryControllers: _cluster(GET),
    controller_request.HearReplica: _cluster(UPDATE),
    controller_request.QueryControllerSettings: _cluster(GET),
    controller_request.ChangeControllerSettings: _cluster(UPDATE),
    controller_peer.GreetController: _cluster(UPDATE),
    controller_peer.TellController: _cluster(UPDATE),
    replication.Follow: _cluster(UPDATE),
    replication.LogHeld: _cluster(UPDATE),
    replica_admin.QueryReplica: _cluster(GET),
    replication.ReadLog: _cluster(UPDATE),
    mqtt_session.Attach: _attached,
    mqtt_session.Unsubscribe: _nothing,
    mqtt_session.ReleasePacketIds: _nothing,
    lite.SyncSubscription: _both(SUB),
    lite.ReceiveLite: _both(SUB),
    lite.SuspendLite: _group(SUB),
    lite_admin.QueryLiteNode: _cluster(GET),
    lite_admin.QueryLiteParent: _topic(GET),
    lite_admin.QueryLiteTopic: _topic(GET),
    lite_admin.QueryLiteClient: _both(GET),
    lite_admin.QueryLiteGroup: _group(GET),
    lite_admin.DispatchLite: _group(UPDATE),
    transaction.RecallMessage: _topic(PUB),
    transaction.ResumeTransaction: _cluster(UPDATE),
    access.CheckAccess: lambda found: found.needs,
    access.Reauthenticate: _nothing,
    user_admin.CreateUser: _cluster(UPDATE),
    user_admin.UpdateUser: _cluster(UPDATE),
    user_admin.DeleteUser: _cluster(UPDATE),
    user_admin.ListUsers: _cluster(GET, LIST),
    user_admin.PutPolicies: _cluster(UPDATE),
    user_admin.DeletePolicies: _cluster(UPDATE),
    user_admin.ListPolicies: _cluster(GET, LIST),
    oscore_admin.PutOscoreContext: _cluster(UPDATE),
    oscore_admin.DeleteOscoreContext: _cluster(UPDATE),
    oscore_admin.QueryOscoreContext: _cluster(GET, LIST),
    oscore_admin.ReserveOscoreRun: _cluster(UPDATE),
    oscore_admin.HoldOscoreContext: _cluster(UPDATE),
}
"""The gate checks Send, SendOnce, Subscribe, EndTransaction and SendBack itself: they carry several messages or subscriptions,
or name a message that only the log knows. A topic of the publish-subscribe draft is known by an id: its book asks for the
rights on its path (`gateway/access/path_rights.py`)."""

SILENT: Final[frozenset[type[Command]]] = frozenset(
    {
        command.Disconnected, command.Unwatch, mqtt_session.Detach, mqtt_session.ConfirmDeliveries,
        mqtt_session.RejectDeliveries, mqtt_session.AcceptDeliveries, channel.ChannelCommand,
        client_inquiry.ClientAnswered, node.NodeFrame, data_topic.LeaveDataTopic,
    }
)  # fmt: skip
"""Commands that pass unchecked: the end of a connection, a watch or a subscription, acknowledgements of deliveries, answers to
requests of the gateway, channel commands and frames of gateways, whose inner commands pass the gate themselves."""
