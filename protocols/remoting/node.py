"""The broker about itself: codes 26 and 28 (RocketMQ's KVTable; what clusterList and brokerStatus print)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from domain.event import Event
from domain.inspect import Figures, QueryFigures
from protocols.remoting import codes, fastjson
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.header import VERSION
from protocols.remoting.ticket import Outcome, Ticket, done

_VERSION_TEXT: Final = "V5_3_3"
_NO_RATE: Final = "0.0 0.0 0.0"


def configuration(client: Client, frame: Frame) -> Outcome:
    """26: the broker's configuration as properties text, under the names that Apache's broker has for it."""
    facts = client.facts
    text = (
        f"brokerName={facts.broker}\nbrokerClusterName={facts.cluster}\nbrokerId=0\nbrokerIP1={facts.host}\n"
        f"listenPort={facts.port}\nnamesrvAddr={facts.namesrv}\nbrokerRole=ASYNC_MASTER\nbrokerPermission=6\n"
        "transactionTimeOut=6000\nlongPollingEnable=true\nenablePropertyFilter=false\n"
    )
    version = fastjson.dumps({"counter": 0, "stateVersion": 0, "timestamp": 0}).decode()
    return Ticket(frame, done).reply(codes.SUCCESS, {"version": version}, text.encode())


def runtime(_client: Client, frame: Frame) -> Outcome:
    """28 -> QueryFigures."""
    return (QueryFigures(Ticket(frame, _runtime)),)


def _runtime(client: Client, ticket: Ticket, event: Event) -> bytes:
    assert isinstance(event, Figures)
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"table": _table(event, client.facts.wall_ms())}))


def _table(event: Figures, now_ms: int) -> Mapping[str, str]:
    """What tools read. Rates and queues of thread pools are 0 here: there are no thread pools, and nobody samples rates."""
    values = event.values
    total = str(int(values.get("messages_total", 0)))
    table = {
        "brokerVersionDesc": _VERSION_TEXT,
        "brokerVersion": str(VERSION),
        "brokerActive": "true",
        "bootTimestamp": str(event.started_ms),
        "runtime": f"{max(0, now_ms - event.started_ms)} ms",
        "putMessageTimesTotal": total,
        "msgPutTotalTodayNow": total,
        "putTps": _NO_RATE,
        "getTotalTps": _NO_RATE,
        "getFoundTps": _NO_RATE,
        "getMissTps": _NO_RATE,
        "getTransferredTps": _NO_RATE,
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }
    for name in (
        "msgPutTotalYesterdayMorning", "msgPutTotalTodayMorning", "msgGetTotalYesterdayMorning", "msgGetTotalTodayMorning",
        "msgGetTotalTodayNow", "sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills", "earliestMessageTimeStamp", "timerReadBehind",
        "timerOffsetBehind", "timerCongestNum", "dispatchBehindBytes", "startAcceptSendRequestTimeStamp",
    ):  # fmt: skip
        table[name] = "0"
    table["earliestMessageTimeStamp"] = str(now_ms)
    table["commitLogDiskRatio"] = str(values.get("disk_used_ratio", 0.0))
    for name, value in values.items():
        table[f"headgate.{name}"] = str(value)
    return table
