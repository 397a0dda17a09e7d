"""The commands and events that go between nodes, and their numbers."""

from __future__ import annotations

import struct
import typing
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final, final

from domain import command, event, transaction
from domain.access import access
from domain.access.principal import Principal
from domain.admin import broker, client, data_topic, group, oscore, position, topic, user
from domain.admin import lite as lite_admin
from domain.admin import message as message_admin
from domain.admin import replica as replica_admin
from domain.admin import subscription as subscription_admin
from domain.client import client_inquiry, membership, mqtt_session
from domain.command import Command
from domain.delivery.routed import Delivery
from domain.event import Event
from domain.message.message import Message, Placed
from domain.nameserver import route
from domain.topic import lite
from protocols.remoting.nodes.calls.octets import Out, Reader, WireError
from protocols.remoting.nodes.forwarding.shape import codec_of, fields_of

COMMANDS: Final[tuple[type[Command], ...]] = (
    command.Send, command.SendRetry, command.Pull, command.HoldQueues, command.Receive, command.AwaitMessages,
    command.Acknowledge, command.Extend, command.DeadLetter, command.SendBack, command.CommitOffsets, command.QueryOffset,
    command.Watch, command.Unwatch, command.QueryLatest, command.DeleteLatest, command.Disconnected, mqtt_session.Attach,
    mqtt_session.Detach, mqtt_session.Subscribe, mqtt_session.Unsubscribe, mqtt_session.SendOnce,
    mqtt_session.ReleasePacketIds, mqtt_session.ConfirmDeliveries, mqtt_session.AcceptDeliveries,
    mqtt_session.RejectDeliveries, membership.Heartbeat, membership.Leave, membership.QueryMembers, membership.LockQueues,
    transaction.EndTransaction, transaction.ResumeTransaction, transaction.RecallMessage, client_inquiry.SendReply,
    client_inquiry.ClientAnswered, route.QueryRoute, route.QueryCluster, route.ListRoutes, route.DropRoute,
    route.RegisterBroker, route.UnregisterBroker, route.RenewBroker, route.SetWritable, route.PutSetting, route.QuerySettings,
    lite.SyncSubscription, lite.ReceiveLite, lite.SuspendLite, topic.QueryTopic, topic.ListTopics, topic.PutTopic,
    topic.ChangeTopic, topic.DeleteTopic, topic.QueryBounds, topic.SearchOffset, topic.QueryEarliestStoreTime,
    topic.QueryTopicState, topic.QueryConsumers, group.QueryGroup, group.ListGroups, group.PutGroup, group.DeleteGroup,
    group.SetReadable, group.SetRequestMode, group.QueryRequestMode, group.ListRequestModes, group.QueryConsumedTopics,
    group.CountWaitingMessages, position.QueryProgress, position.QueryBacklog, position.QueryTimeSpans,
    position.ResetPositions, position.ClonePositions, message_admin.ViewMessage, message_admin.QueryMessages,
    message_admin.Peek, client.QueryConnections, client.QueryProducers, client.QueryRunningInfo, client.ConsumeDirectly,
    client.QueryClientPositions, broker.QueryNodeCounters, broker.QueryRates, broker.ChangeNodePolicy,
    broker.QueryNodePolicy, lite_admin.QueryLiteNode, lite_admin.QueryLiteParent, lite_admin.QueryLiteTopic,
    lite_admin.QueryLiteClient, lite_admin.QueryLiteGroup, lite_admin.DispatchLite, user.CreateUser, user.UpdateUser,
    user.DeleteUser, user.ListUsers, user.PutPolicies, user.DeletePolicies, user.ListPolicies, access.CheckAccess,
    access.Reauthenticate,
    route.RegisterPage, replica_admin.QueryReplica, subscription_admin.PutSubscription, subscription_admin.QuerySubscriptions,
    subscription_admin.DeleteSubscription, subscription_admin.ChangeStatus, subscription_admin.ClaimSubscriptions,
    subscription_admin.RecordAttempts, subscription_admin.QueryAttempts, subscription_admin.TestSubscription,
    subscription_admin.Redrive, subscription_admin.ResetSubscription, command.FollowTopic, command.AwaitSettled,
    group.FindGroup, subscription_admin.GrantConsent,
    data_topic.MakeDataTopic, data_topic.ChangeDataTopic, data_topic.QueryDataTopic, data_topic.ListDataTopics,
    data_topic.DeleteDataTopic, data_topic.JoinDataTopic, data_topic.LeaveDataTopic,
    group.RedriveGroup, subscription_admin.RecordDeliveries,
    oscore.PutOscoreContext, oscore.DeleteOscoreContext, oscore.QueryOscoreContext, oscore.ReserveOscoreRun,
    oscore.HoldOscoreContext, subscription_admin.LeaseDeliveries,
)  # fmt: skip
"""Commands in the order of their numbers, from 0 on. A new one gets the next number; a number is never given again."""

EVENTS: Final[tuple[type[Event], ...]] = (
    event.Refused, event.Sent, event.Done, event.Pulled, event.Received, event.MessagesWaiting, event.Settled,
    event.Extended, event.Offset, event.WatchStarted, event.WatchedMessages, event.LatestValue, mqtt_session.Attached,
    mqtt_session.Subscribed, mqtt_session.Unsubscribed, mqtt_session.PacketIdsReleased, mqtt_session.Deliveries,
    mqtt_session.DeliveriesAccepted, mqtt_session.SessionTakenOver, membership.Members, membership.MembersChanged,
    membership.Locked, transaction.Recalled, transaction.CheckTransaction, client_inquiry.Inquiry, route.RouteFound,
    route.ClusterFound, route.RouteNames, route.BrokerRegistered, route.BrokerRenewed, route.WritableChanged,
    route.SettingsFound, lite.LiteTaken, topic.TopicFound, topic.TopicList, topic.Bounds, topic.EarliestStoreTime,
    topic.TopicState, topic.ConsumersFound, group.GroupFound, group.GroupList, group.Readable, group.RequestMode,
    group.RequestModeList, group.ConsumedTopics, group.WaitingCount, position.Progress, position.Backlog,
    position.TimeSpans, position.PositionsReset, message_admin.Viewed, message_admin.MessagesFound, message_admin.Peeked,
    client.Connections, client.Producers, client.RunningInfo, client.ConsumptionResult, client.ClientPositions,
    broker.NodeCounters, broker.Rates, broker.NodePolicyFound, lite_admin.LiteNode, lite_admin.LiteParent,
    lite_admin.LiteTopic, lite_admin.LiteClient, lite_admin.LiteGroup, user.UserList, user.GrantList,
    route.PageRegistered, replica_admin.ReplicaFound, subscription_admin.SubscriptionFound,
    subscription_admin.SubscriptionList, subscription_admin.SubscriptionsClaimed, subscription_admin.AttemptList,
    subscription_admin.Redriven, event.TopicFollowed, event.LeasesEnded,
    data_topic.DataTopicFound, data_topic.DataTopicIds, data_topic.DataTopicJoined,
    subscription_admin.DeliveriesRecorded, oscore.OscoreContextFound, oscore.OscoreRunReserved,
)  # fmt: skip
"""Events in the order of their numbers, from 0 on."""

_UNANNOTATED: Final[dict[type, list[tuple[str, Any]]]] = {
    command.Send: [
        ("ticket", object), ("messages", list[Message]), ("wait", bool), ("typed", bool), ("queues", int), ("early", bool),
        ("once", tuple[bytes, bytes] | None),
    ],
    command.SendRetry: [
        ("ticket", object), ("messages", list[Message]), ("group", str), ("retry_max", int), ("wait", bool),
    ],
    mqtt_session.SendOnce: [("ticket", object), ("messages", list[Message]), ("packet_ids", list[int])],
    event.Sent: [("ticket", object), ("placed", list[Placed])],
    event.Pulled: [
        ("ticket", object), ("status", str), ("records", list[bytes]), ("next_offset", int), ("min_offset", int),
        ("max_offset", int), ("unmarked", bool),
    ],
    mqtt_session.ConfirmDeliveries: [("slots", list[int])],
    mqtt_session.Deliveries: [("items", list[Delivery]), ("ticket", object)],
}  # fmt: skip
"""The parameters of the constructors of classes that are no dataclasses."""
LATER: Final[dict[type, int]] = {group.ListGroups: 2}
"""Class -> how many of its last fields came after 44998bdc. They have defaults, and are sent only when one of them differs:
a node that does not know them passes over them."""
_NUMBER: Final = struct.Struct(">H")


@final
class Kind:
    """One class of commands or of events.

    number     on the wire
    waits      True: it has the attribute `wait`, which is False when no answer is expected
    """

    def __init__(self, number: int, of: type) -> None:
        self.number = number
        self.of = of
        hints = _hints(of)
        names = [name for name, _ in hints]
        self.ticketed = "ticket" in names
        self.waits = "wait" in names
        self._number = _NUMBER.pack(number)
        first = len(hints) - LATER.get(of, 0)
        self._codec = fields_of(of, hints[:first])
        self._later = [(name, codec_of(hint), _default(of, name)) for name, hint in hints[first:]]

    def put(self, out: Out, value: Any, sized: bool = True) -> None:
        """Append the number and the fields. Raises struct.error and UnicodeEncodeError for a value without a form.

        `sized`: as `NodeStream.sized`; False: the fields of LATER are left out.
        """
        out.append(self._number)
        self._codec.put(out, value)
        if sized and any(getattr(value, name) != default for name, _, default in self._later):
            for name, codec, _ in self._later:
                codec.put(out, getattr(value, name))

    def get(self, reader: Reader) -> Any:
        """The fields, behind the number; the ticket is None. Raises WireError."""
        found = self._codec.get(reader)
        if self._later and reader.sized and reader.left:
            for name, codec, _ in self._later:
                setattr(found, name, codec.get(reader))
        return found


def _hints(of: type) -> list[tuple[str, Any]]:
    """(parameter of the constructor, type), in order."""
    if not is_dataclass(of):
        return _UNANNOTATED[of]
    hints = typing.get_type_hints(of, localns={"Principal": Principal})
    return [(each.name, hints[each.name]) for each in fields(of) if each.init]


def _default(of: type, name: str) -> object:
    return next(each.default for each in fields(of) if each.name == name)


@final
class Kinds:
    """A table of classes by their numbers, and of numbers by their classes."""

    def __init__(self, classes: Sequence[type], what: str) -> None:
        self._what = what
        self.of: Final[dict[type, Kind]] = {each: Kind(number, each) for number, each in enumerate(classes)}
        self._numbered = list(self.of.values())

    def get(self, reader: Reader) -> Any:
        """The next command or event, whose ticket is None. Raises WireError."""
        number = reader.unpack(_NUMBER)[0]
        if number >= len(self._numbered):
            raise WireError(f"there is no {self._what} {number}")
        return self._numbered[number].get(reader)


COMMAND_KINDS: Final = Kinds(COMMANDS, "command")
EVENT_KINDS: Final = Kinds(EVENTS, "event")
