"""The replicas of a broker: codes 907 and 1007 (RocketMQ's HARuntimeInfo, EpochEntryCache)."""

from __future__ import annotations

from typing import Final

from domain.admin.replica import ReplicaFound
from protocols.remoting import codes
from protocols.remoting.client import Client
from protocols.remoting.ticket import Ticket
from protocols.remoting.wire import fastjson

ALONE: Final = "this node keeps its log alone: there are no replicas, no epochs and no controller to ask"
NO_END: Final = 0x7FFFFFFFFFFFFFFF
"""End of the newest epoch, until another one begins."""


def status(client: Client, ticket: Ticket, event: ReplicaFound) -> bytes:
    """Reply of 907: a HARuntimeInfo bean."""
    following = {
        "activated": True,
        "lastReadTimestamp": client.node.wall_ms(),
        "lastWriteTimestamp": client.node.wall_ms(),
        "masterAddr": event.leader,
        "masterFlushOffset": event.confirmed,
        "maxOffset": event.written,
        "transferredByteInSecond": 0,
    }
    body = {
        "haClientRuntimeInfo": {} if event.leads else following,
        "haConnectionInfo": [
            {
                "addr": each.address,
                "diff": max(0, event.written - each.written),
                "inSync": each.in_sync,
                "slaveAckOffset": each.written,
                "transferFromWhere": each.written,
                "transferredByteInSecond": 0,
            }
            for each in event.followers
        ],
        "inSyncSlaveNums": sum(each.in_sync for each in event.followers),
        "master": event.leads,
        "masterCommitLogMaxOffset": event.written if event.leads else 0,
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))


def epochs(client: Client, ticket: Ticket, event: ReplicaFound) -> bytes:
    """Reply of 1007: an EpochEntryCache bean."""
    if not event.replicated:
        return ticket.reply(codes.NOT_SUPPORTED, remark=ALONE)
    ends = [*(begin for _, begin in event.eras[1:]), NO_END]
    body = {
        "brokerId": event.own,
        "brokerName": client.node.broker,
        "clusterName": client.node.cluster,
        "epochList": [
            {"endOffset": end, "epoch": epoch, "startOffset": begin}
            for (epoch, begin), end in zip(event.eras, ends, strict=False)
        ],
        "maxOffset": event.written,
    }
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps(body))
