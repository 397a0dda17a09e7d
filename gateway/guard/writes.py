"""The commands that write to the log, by what becomes of one whose sender is above its rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from domain import command
from domain.admin import group as group_admin
from domain.admin import oscore as oscore_admin
from domain.admin import position as position_admin
from domain.admin import topic as topic_admin
from domain.admin import user as user_admin
from domain.client import channel, mqtt_session, node
from domain.command import Command
from domain.nameserver import route
from domain.transaction import EndTransaction, RecallMessage, ResumeTransaction

SETTLED_BYTES: Final = 64
"""Bytes that a lease, a position or a packet identifier counts for: they are written at the end of a turn, those of all clients
together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    """Commands by class. What is in none of the sets is charged when it has written something, and never refused.

    setting     those that set something: each counts as a message, and is refused
    leaving     those that end something: each counts as a message, and none is refused
    settling    those by which readers report how far they are. Only their bytes count, so that whoever reads as fast as others
                send is not slowed by a rate of messages. They are delayed, so that nothing is delivered twice
    refusable   those of `settling` that are refused when the debt is long
    paid        those whose bytes counted when what they end came: a half message, a will
    later       those that write in later turns: what they do then is charged by `ClientConnection.wrote`
    carrying    those with commands of others in them, which are counted by themselves
    """

    setting: frozenset[type[Command]]
    leaving: frozenset[type[Command]] = frozenset()
    settling: frozenset[type[Command]] = frozenset()
    refusable: frozenset[type[Command]] = frozenset()
    paid: frozenset[type[Command]] = frozenset()
    later: frozenset[type[Command]] = frozenset()
    carrying: frozenset[type[Command]] = frozenset()


NONE: Final = Writes(setting=frozenset())
OWN: Final = Writes(
    setting=frozenset(
        {
            command.SendBack, command.DeadLetter, command.DeleteLatest, command.HoldQueues,
            mqtt_session.Attach, mqtt_session.Subscribe, topic_admin.PutTopic, topic_admin.ChangeTopic, topic_admin.DeleteTopic,
            group_admin.PutGroup, group_admin.DeleteGroup, group_admin.SetReadable, group_admin.SetRequestMode,
            group_admin.RedriveGroup, position_admin.ResetPositions, position_admin.ClonePositions, route.PutSetting,
            ResumeTransaction, RecallMessage, user_admin.CreateUser, user_admin.UpdateUser, user_admin.DeleteUser,
            user_admin.PutPolicies, user_admin.DeletePolicies, oscore_admin.PutOscoreContext, oscore_admin.DeleteOscoreContext,
        }
    ),
    leaving=frozenset({mqtt_session.Unsubscribe, mqtt_session.Detach, EndTransaction}),
    settling=frozenset(
        {
            command.Acknowledge, command.Extend, command.CommitOffsets, command.Pull, mqtt_session.ReleasePacketIds,
            mqtt_session.ConfirmDeliveries, mqtt_session.AcceptDeliveries, mqtt_session.RejectDeliveries,
        }
    ),
    refusable=frozenset({command.Acknowledge, command.Extend, command.CommitOffsets}),
    paid=frozenset({EndTransaction}),
    later=frozenset(
        {
            command.SendBack, command.DeadLetter, mqtt_session.Subscribe, mqtt_session.Unsubscribe, group_admin.RedriveGroup,
            position_admin.ResetPositions, position_admin.ClonePositions,
        }
    ),
    carrying=frozenset({channel.ChannelCommand, node.NodeFrame, node.GreetNode}),
)  # fmt: skip
"""Those of the commands that every node has; installed use cases declare their own (`gateway/node/use_cases.py`)."""


def together(each: Sequence[Writes]) -> Writes:
    """All of them as one."""
    return Writes(**{name.name: frozenset().union(*(getattr(one, name.name) for one in each)) for name in fields(Writes)})


def settled(done: Command) -> int:
    """Number of leases, positions or packet identifiers that a command of `settling` carries."""
    if isinstance(done, command.Acknowledge | command.Extend):
        return len(done.receipts)
    if isinstance(done, command.CommitOffsets):
        return len(done.offsets)
    if isinstance(done, command.Pull):
        return int(done.commit >= 0)
    if isinstance(done, mqtt_session.ReleasePacketIds):
        return len(done.packet_ids)
    if isinstance(done, mqtt_session.RejectDeliveries):
        return len(done.items)
    if isinstance(done, mqtt_session.ConfirmDeliveries | mqtt_session.AcceptDeliveries):
        return len(done.slots)
    return 0
