"""Configuration, counters and cleaning of the broker: codes 25, 26, 28, 306, 316 and 329."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from domain.admin.broker import ChangeNodePolicy, NodeCounters, NodePolicyFound
from domain.limits import BODY_BYTES_MAX, DELAY_MS_MAX
from protocols.remoting import codes
from protocols.remoting.client import REGION, Client
from protocols.remoting.ticket import Outcome, RequestError, Ticket, success
from protocols.remoting.wire import fastjson
from protocols.remoting.wire.frame import Frame
from protocols.remoting.wire.header import VERSION

_VERSION_TEXT: Final = "V5_3_3"
CHANGEABLE: Final[Mapping[str, str]] = {
    "autoCreateTopicEnable": "create_topics",
    "autoCreateSubscriptionGroup": "create_groups",
    "defaultTopicQueueNums": "queues",
    "brokerPermission": "permission",
    "shareStrategy": "share_strategy",
    "priorityOrderAsc": "priority_order_ascending",
    "popFromRetryProbabilityForPriority": "priority_again_first_percent",
    "transactionTimeOut": "transaction_timeout_ms",
    "transactionCheckInterval": "transaction_check_ms",
    "transactionCheckMax": "transaction_checks_max",
}
"""Name in Apache's BrokerConfig (`shareStrategy` is our own) -> name in the node's policy."""
FIXED: Final[Mapping[str, str]] = {
    "maxMessageSize": str(BODY_BYTES_MAX),
    "messageDelayLevel": "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
    "timerWheelEnable": "true",
    "timerPrecisionMs": "1",
    "timerMaxDelaySec": str(DELAY_MS_MAX // 1000),
    "recallMessageEnable": "true",
    "rejectTransactionMessage": "false",
    "longPollingEnable": "true",
    "litePullMessageEnable": "true",
    "enablePropertyFilter": "true",
    "enableMixedMessageType": "true",
    "serverLoadBalancerEnable": "true",
    "defaultMessageRequestMode": "PULL",
    "traceOn": "true",
    "traceTopicEnable": "true",
    "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
    "brokerTopicEnable": "true",
    "clusterTopicEnable": "true",
    "slaveReadEnable": "false",
    "coldDataFlowControlEnable": "false",
    "regionId": REGION,
}
"""Settings with the same value on every node, by the names that tools read (BrokerConfig, MessageStoreConfig)."""
CHANGES_BYTES_MAX: Final = 65_536
"""Bytes of the properties in one request."""
_CONTINUED: Final = re.compile(r"(?<!\\)\\\r?\n[ \t\f]*")
_ENTRY: Final = re.compile(r"(?![#!])((?:[^\\=:\s]|\\.)+)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_LETTERS: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def configuration(client: Client, ticket: Ticket, event: NodePolicyFound) -> bytes:
    """Reply of 26: the policy and FIXED, under the names of Apache's broker."""
    own = client.node
    controlled = str(own.authority is not None).lower()
    text = (
        f"brokerName={own.broker}\nbrokerClusterName={own.cluster}\nbrokerIP1={own.host}\n"
        f"listenPort={own.port}\nnamesrvAddr={own.namesrv}\n"
        f"flushDiskType={'SYNC_FLUSH' if 'flushed' in event.values['durability'] else 'ASYNC_FLUSH'}\n"
        f"authenticationEnabled={controlled}\nauthorizationEnabled={controlled}\n"
    )
    text += "".join(f"{name}={value}\n" for name, value in (*_replication(event.values), *FIXED.items()))
    text += "".join(f"{name}={event.values[ours]}\n" for name, ours in CHANGEABLE.items() if ours in event.values)
    version = fastjson.dumps(fastjson.data_version()).decode()
    return ticket.reply(codes.SUCCESS, {"version": version}, text.encode())


def _replication(values: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The role of the node, and how many replicas a send at the default level waits for, as a broker in controller mode has it.

    A node before, and tools, read from it what an acknowledgement promises. A store alone, or with a default level that waits
    for no replica, is an ASYNC_MASTER.
    """
    follows = values.get("leads") == "False"
    copies = values.get("confirming", "1") if "replicated" in values["durability"] else "1"
    yield "brokerId", values["replica"] if follows else "0"
    yield "brokerRole", "SLAVE" if follows else "SYNC_MASTER" if int(copies) > 1 or _waits_for_set(values) else "ASYNC_MASTER"
    yield "enableControllerMode", str("replica" in values).lower()
    yield "inSyncReplicas", copies
    yield "minInSyncReplicas", values.get("min_in_sync", "1")
    yield "allAckInSyncStateSet", str(_waits_for_set(values)).lower()


def _waits_for_set(values: Mapping[str, str]) -> bool:
    """True when a send at the default level waits for all members of the SyncStateSet."""
    return values.get("acks") == "0" and "replicated" in values["durability"]


def configure(_client: Client, frame: Frame) -> Outcome:
    """Request code 25 -> ChangeNodePolicy; response code 16 for settings that are read at start."""
    wanted = changes(frame, CHANGEABLE, "read at start from the configuration; while it runs, the broker can change")
    return (ChangeNodePolicy(Ticket(frame, success), {CHANGEABLE[name]: value for name, value in wanted.items()}),)


def changes(frame: Frame, changeable: Collection[str], reason: str) -> dict[str, str]:
    """The settings in the body. Raises RequestError without any, and with `reason` for one that is not `changeable`."""
    wanted = properties(frame.body)
    if not wanted:
        raise RequestError(codes.INVALID_PARAMETER, "there is no key=value in it")
    fixed = [name for name in wanted if name not in changeable]
    if fixed:
        raise RequestError(codes.NO_PERMISSION, f"{', '.join(fixed)[:200]}: {reason} {', '.join(changeable)}")
    return wanted


def properties(body: bytes) -> dict[str, str]:
    """Java properties (java.util.Properties, load): `key=value`, `key:value` or `key value`, comments after # and !.

    A backslash at the end of a line continues it on the next line; before another character it escapes that character.
    Raises RequestError beyond CHANGES_BYTES_MAX.
    """
    if len(body) > CHANGES_BYTES_MAX:
        raise RequestError(codes.INVALID_PARAMETER, f"{len(body)} bytes of properties, {CHANGES_BYTES_MAX} are allowed")
    found: dict[str, str] = {}
    text = _CONTINUED.sub("", body.decode("utf-8", "replace"))
    for line in text.splitlines():
        whole = _ENTRY.match(line.lstrip())
        if whole is not None:
            found[_unescaped(whole[1])] = _unescaped(whole[2])
    return found


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]), text).strip()


def clean(_client: Client, frame: Frame) -> Outcome:
    """Request codes 306, 316, 329: SUCCESS at once. Retention deletes expired messages by itself, index and log together."""
    return Ticket(frame, success).reply(codes.SUCCESS, remark="nothing to do: retention deletes by itself what has expired")


def runtime(client: Client, ticket: Ticket, event: NodeCounters) -> bytes:
    """Reply of 28: `table` has the runtime counters, each as text."""
    return ticket.reply(codes.SUCCESS, body=fastjson.dumps({"table": _table(event, client.node.wall_ms())}))


def _table(event: NodeCounters, now_ms: int) -> Mapping[str, str]:
    """The runtime counters that tools read. Thread pool queues are reported as empty: there are no thread pools."""
    values = event.values
    got = _rates(values, "got")
    table = {
        "brokerVersionDesc": _VERSION_TEXT,
        "brokerVersion": str(VERSION),
        "brokerActive": "true",
        "bootTimestamp": str(event.started_ms),
        "runtime": f"{max(0, now_ms - event.started_ms)} ms",
        "putMessageTimesTotal": _whole(values, "put_total"),
        "msgPutTotalTodayNow": _whole(values, "put_total"),
        "msgPutTotalTodayMorning": _whole(values, "put_before_today_total"),
        "msgPutTotalYesterdayMorning": _whole(values, "put_before_yesterday_total"),
        "msgGetTotalTodayNow": _whole(values, "got_total"),
        "msgGetTotalTodayMorning": _whole(values, "got_before_today_total"),
        "msgGetTotalYesterdayMorning": _whole(values, "got_before_yesterday_total"),
        "putTps": _rates(values, "put"),
        "getTotalTps": got,
        "getFoundTps": got,
        "getMissTps": "0.0 0.0 0.0",
        "getTransferredTps": got,
        "timerEnqueueTps": f"{values.get('parked_per_second_10s', 0.0):.2f}",
        "timerDequeueTps": f"{values.get('due_per_second_10s', 0.0):.2f}",
        "earliestMessageTimeStamp": _whole(values, "log_oldest_ms"),
        "commitLogDiskRatio": f"{values.get('disk_used_ratio', 0.0):.4f}",
        "consumeQueueDiskRatio": f"{values.get('disk_used_ratio', 0.0):.4f}",
        "commitLogMinOffset": str(int(values.get("log_end", 0) - values.get("log_bytes", 0))),
        "commitLogMaxOffset": _whole(values, "log_end"),
        "startAcceptSendRequestTimeStamp": str(event.started_ms),
    }
    for name in (
        "sendThreadPoolQueueSize", "pullThreadPoolQueueSize", "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueHeadWaitTimeMills", "pageCacheLockTimeMills", "timerReadBehind", "timerOffsetBehind",
        "timerCongestNum", "dispatchBehindBytes",
    ):  # fmt: skip
        table[name] = "0"
    for name, value in values.items():
        table[f"headgate.{name}"] = str(value)
    return table


def _whole(values: Mapping[str, float], name: str) -> str:
    return str(int(values.get(name, 0)))


def _rates(values: Mapping[str, float], way: str) -> str:
    """Messages per second over the last 10, 60 and 600 seconds, separated by blanks."""
    return " ".join(f"{values.get(f'{way}_per_second_{seconds}s', 0.0):.2f}" for seconds in (10, 60, 600))
