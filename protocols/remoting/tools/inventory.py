"""Positions, request modes and waiting receives of all groups: codes 43, 308, 402, 2003 and 200055.

RocketMQ's ConsumerOffsetSerializeWrapper, QueryCorrectionOffsetBody, MessageRequestModeSerializeWrapper, ColdDataCgCtrService,
PollingInfoResponseHeader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from domain.admin.group import RequestModeList, WaitingCount
from domain.admin.position import Backlog, QueryBacklog
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Arguments, Outcome, Rendering, Ticket, success
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame

NO_CORRECTION: Final = 0x7FFFFFFFFFFFFFFF
"""The correction of a queue in which the compared group is behind the other groups: no correction."""


def positions(_client: Client, ticket: Ticket, event: Backlog) -> Rendering:
    """Reply of 43: a ConsumerOffsetSerializeWrapper."""
    table: dict[str, dict[str, int]] = {}
    for at, (group, topic, queue_id, position) in enumerate(_each(event), 1):
        table.setdefault(f"{topic}@{group}", {})[str(queue_id)] = position
        if at % fastjson.BATCH == 0:
            yield
    version = fastjson.dumps(fastjson.data_version())
    offsets = yield from fastjson.members(table.items())
    return ticket.reply(codes.SUCCESS, body=b"".join((b'{"dataVersion":%b,"offsetTable":{' % version, *offsets, b"}}")))


def corrections(_client: Client, frame: Frame) -> Outcome:
    """Request code 308 -> QueryBacklog. The reply has the least position of all groups but `filterGroups`, by queue."""
    args = Arguments(frame)
    excluded = frozenset(each for each in args.text("filterGroups", "").split(",") if each)
    asked = (args.text("topic"), args.text("compareGroup"), excluded)
    return (QueryBacklog(Ticket(frame, _corrections, asked)),)


def _corrections(_client: Client, ticket: Ticket, event: Backlog) -> Rendering:
    wanted, compared, excluded = ticket.request_data
    least: dict[int, int] = {}
    own: dict[int, int] = {}
    for at, (group, topic, queue_id, position) in enumerate(_each(event), 1):
        if at % fastjson.BATCH == 0:
            yield
        if topic == wanted and group not in excluded:
            least[queue_id] = min(position, least.get(queue_id, position))
        if topic == wanted and group == compared:
            own[queue_id] = position
    for queue_id, position in own.items():
        if least.get(queue_id, position) > position:
            least[queue_id] = NO_CORRECTION
    body = {"correctionOffsets": {str(queue_id): position for queue_id, position in sorted(least.items())}}
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def _each(event: Backlog) -> Iterator[tuple[str, str, int, int]]:
    """(group, topic, queue id, position)."""
    return (
        (group, topic, queue_id, position)
        for group, queues in sorted(event.groups.items())
        for topic, queue_id, _, position in queues
    )


def modes(_client: Client, ticket: Ticket, event: RequestModeList) -> bytes:
    """Reply of 402: `messageRequestModeMap` has topic -> group -> its mode, pull or pop."""
    table: dict[str, dict[str, object]] = {}
    for topic, group, mode, share in event.modes:
        body = {"consumerGroup": group, "mode": mode, "popShareQueueNum": share, "topic": topic}
        table.setdefault(topic, {})[group] = body
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"messageRequestModeMap": table}))


def waiting(_client: Client, ticket: Ticket, event: WaitingCount) -> bytes:
    """Reply of 200055: the number of waiting receives."""
    return ticket.reply(codes.SUCCESS, {"pollingNum": str(event.count)})


def cold_reads(_client: Client, frame: Frame) -> Outcome:
    """Request code 2003: the reply is constant, reads of cold data are neither throttled nor counted."""
    body = {"coldDataFlowControlEnable": "false", "configTable": {}, "globalAcc": "0", "runtimeTable": {}}
    return Ticket(frame, success).reply(codes.SUCCESS, body=fastjson.dumps(body))
