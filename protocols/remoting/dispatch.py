"""Request code -> reader. Other request codes are answered with response code 3 and a reason in the remark."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from domain.admin.broker import QueryNodeCounters, QueryNodePolicy, QueryRates
from domain.admin.client import QueryClientPositions, QueryConnections, QueryProducers, QueryRunningInfo
from domain.admin.group import CountWaitingMessages, DeleteGroup, ListRequestModes, QueryConsumedTopics, QueryGroup
from domain.admin.lite import DispatchLite, QueryLiteClient, QueryLiteGroup, QueryLiteNode, QueryLiteParent, QueryLiteTopic
from domain.admin.message import ViewMessage
from domain.admin.position import ClonePositions, QueryBacklog, QueryProgress, QueryTimeSpans
from domain.admin.replica import QueryReplica
from domain.admin.topic import DeleteTopic, ListTopics, QueryBounds, QueryConsumers, QueryTopic, QueryTopicState
from domain.admin.user import DeleteUser, ListUsers
from domain.client.membership import QueryMembers
from domain.nameserver.route import (
    DropRoute,
    ListRoutes,
    PutSetting,
    QueryCluster,
    QueryRoute,
    QuerySettings,
    RenewBroker,
    UnregisterBroker,
)
from domain.transaction import RecallMessage
from protocols.remoting import access, codes
from protocols.remoting.clients import lite, member, offset, pull, query, receive, settle, transaction
from protocols.remoting.nameserver import registration, route
from protocols.remoting.nodes import extension
from protocols.remoting.ticket import Reader, flag, number, request, success, text
from protocols.remoting.tools import admin, inventory, node, pages, relay, replicas, statistics

READERS: Final[Mapping[int, Reader]] = {
    codes.PULL: pull.read,
    codes.LITE_PULL: pull.read,
    codes.QUERY_MESSAGE: query.by_key,
    codes.GET_CONSUMERS: request(QueryConsumers, query.consumers, "topic"),
    codes.QUERY_OFFSET: offset.query,
    codes.UPDATE_OFFSET: offset.update,
    codes.SEARCH_OFFSET: offset.search,
    codes.GET_MAX_OFFSET: offset.bound,
    codes.GET_MIN_OFFSET: offset.bound,
    codes.GET_EARLIEST_TIME: offset.earliest,
    codes.VIEW_MESSAGE: request(ViewMessage, offset.view, number("offset")),
    codes.HEARTBEAT: member.heartbeat,
    codes.UNREGISTER_CLIENT: member.leave,
    codes.GET_MEMBERS: request(QueryMembers, member.members, "consumerGroup"),
    codes.LOCK_QUEUES: member.lock,
    codes.UNLOCK_QUEUES: member.lock,
    codes.CHECK_CLIENT: member.check,
    codes.QUERY_ASSIGNMENT: member.assign,
    codes.SET_REQUEST_MODE: member.set_mode,
    codes.SEND_BACK: settle.send_back,
    codes.END_TRANSACTION: transaction.end,
    codes.RECALL: request(RecallMessage, transaction.recall, "topic", "recallHandle"),
    codes.RESUME_TRANSACTION: transaction.resume,
    codes.POP: receive.read,
    codes.ACK: settle.acknowledge,
    codes.BATCH_ACK: settle.acknowledge_batch,
    codes.CHANGE_INVISIBLE: settle.extend,
    codes.NOTIFICATION: receive.notify,
    codes.POP_LITE: lite.pop,
    codes.LITE_SUBSCRIPTION: lite.subscribe,
    codes.ACK_LITE: settle.acknowledge,
    codes.GET_LITE_NODE: request(QueryLiteNode, lite.node),
    codes.GET_LITE_PARENT: request(QueryLiteParent, lite.parent, "topic"),
    codes.GET_LITE_TOPIC: request(QueryLiteTopic, lite.topic, "parentTopic", "liteTopic"),
    codes.GET_LITE_CLIENT: request(QueryLiteClient, lite.client, "parentTopic", "group", "clientId", number("maxCount", 1_000)),
    codes.GET_LITE_GROUP: request(QueryLiteGroup, lite.group, "group", text("liteTopic", ""), number("topK", 20)),
    codes.DISPATCH_LITE: request(DispatchLite, success, "group", text("clientId", "")),
    codes.UPDATE_TOPIC: admin.put_topic,
    codes.UPDATE_TOPIC_LIST: admin.put_topics,
    codes.DELETE_TOPIC: request(DeleteTopic, success, "topic"),
    codes.GET_TOPIC: request(QueryTopic, admin.topic, "topic"),
    codes.GET_ALL_TOPICS: pages.topics,
    codes.GET_BROKER_SYSTEM_TOPICS: pages.system_topics,
    codes.GET_TOPIC_STATS: request(QueryTopicState, statistics.topic, "topic"),
    codes.GET_PROGRESS: request(partial(QueryProgress, times=True), statistics.progress, "consumerGroup", text("topic", "")),
    codes.UPDATE_GROUP: admin.put_group,
    codes.UPDATE_GROUP_LIST: admin.put_groups,
    codes.GET_GROUP: request(QueryGroup, admin.group, "group"),
    codes.GET_ALL_GROUPS: pages.groups,
    codes.SET_READABLE: admin.set_readable,
    codes.DELETE_GROUP: request(DeleteGroup, success, "groupName"),
    codes.RESET_OFFSET: relay.reset,
    codes.CLONE_OFFSETS: request(ClonePositions, success, "srcGroup", "destGroup", text("topic", "")),
    codes.GET_CONSUMER_STATUS: request(QueryClientPositions, relay.status, "topic", "group", text("clientAddr", "")),
    codes.GET_RUNNING_INFO: request(QueryRunningInfo, relay.client_text, "consumerGroup", "clientId", flag("jstackEnable")),
    codes.CONSUME_DIRECTLY: relay.consume,
    codes.SEND_REPLY: relay.reply,
    codes.SEND_REPLY_V2: relay.reply,
    codes.GET_CONSUMER_CONNECTIONS: request(QueryConnections, statistics.consumers, "consumerGroup"),
    codes.GET_PRODUCER_CONNECTIONS: request(QueryProducers, statistics.producers, "producerGroup"),
    codes.GET_PRODUCERS: request(QueryProducers, statistics.all_producers),
    codes.GET_CONSUMED: request(QueryConsumedTopics, statistics.consumed, "group"),
    codes.GET_SUBSCRIPTION: statistics.subscription,
    codes.GET_TIME_SPANS: request(QueryTimeSpans, statistics.spans, "topic", "group"),
    codes.GET_RATES: request(QueryRates, statistics.rates, "statsName", "statsKey"),
    codes.GET_BACKLOG: request(QueryBacklog, statistics.backlog, flag("isOrder")),
    codes.GET_ROWS: statistics.rows,
    codes.PEEK: statistics.peek,
    codes.GET_ALL_OFFSETS: request(QueryBacklog, inventory.positions),
    codes.QUERY_CORRECTION: inventory.corrections,
    codes.GET_ALL_MODES: request(ListRequestModes, inventory.modes),
    codes.POLLING_INFO: request(CountWaitingMessages, inventory.waiting, "consumerGroup", "topic", number("queueId", least=-1)),
    codes.GET_HA_STATUS: request(QueryReplica, replicas.status),
    codes.GET_BROKER_EPOCHS: request(QueryReplica, replicas.epochs),
    codes.GET_COLD_READS: inventory.cold_reads,
    codes.CLEAN_QUEUES: node.clean,
    codes.CLEAN_TOPICS: node.clean,
    codes.CLEAN_LOG: node.clean,
    codes.UPDATE_BROKER_CONFIG: node.configure,
    codes.GET_BROKER_CONFIG: request(QueryNodePolicy, node.configuration),
    codes.GET_RUNTIME_INFO: request(QueryNodeCounters, node.runtime),
    codes.GET_ROUTE: request(QueryRoute, route.route, "topic"),
    codes.GET_CLUSTER: request(QueryCluster, route.cluster),
    codes.GET_TOPICS: request(ListRoutes, route.topics),
    codes.GET_TOPICS_OF_CLUSTER: request(ListRoutes, route.topics, "cluster"),
    codes.GET_SYSTEM_TOPICS: request(QueryCluster, route.system_topics),
    codes.DELETE_TOPIC_ROUTE: request(DropRoute, success, "topic", text("clusterName", "")),
    codes.GET_UNIT_TOPICS: request(ListTopics, admin.unit_topics),
    codes.GET_UNIT_SUBSCRIBED: request(ListTopics, admin.unit_topics),
    codes.GET_UNIT_SUBSCRIBED_ALONE: request(ListTopics, admin.unit_topics),
    codes.GET_BROKER_MEMBERS: route.members,
    codes.PUT_KV: request(PutSetting, success, "namespace", "key", "value"),
    codes.GET_KV: request(QuerySettings, route.get_key, "namespace", "key"),
    codes.DELETE_KV: request(PutSetting, success, "namespace", "key"),
    codes.LIST_KV: request(QuerySettings, route.list_keys, "namespace"),
    codes.WIPE_WRITE: route.set_writable,
    codes.ADD_WRITE: route.set_writable,
    codes.GET_NAMESRV_CONFIG: route.configuration,
    codes.UPDATE_NAMESRV_CONFIG: route.configure,
    codes.REGISTER_BROKER: registration.register,
    codes.UNREGISTER_BROKER: request(UnregisterBroker, success, "clusterName", "brokerName", number("brokerId"), "brokerAddr"),
    codes.QUERY_DATA_VERSION: registration.compare,
    codes.BROKER_HEARTBEAT: request(RenewBroker, success, "clusterName", "brokerName", "brokerAddr"),
    codes.CREATE_USER: access.create_user,
    codes.UPDATE_USER: access.update_user,
    codes.DELETE_USER: request(DeleteUser, success, "username"),
    codes.GET_USER: access.get_user,
    codes.LIST_USER: request(ListUsers, access.list_users, text("filter", "")),
    codes.CREATE_ACL: access.put_policies,
    codes.UPDATE_ACL: access.put_policies,
    codes.DELETE_ACL: access.delete_policies,
    codes.GET_ACL: access.get_policies,
    codes.LIST_ACL: access.list_policies,
    codes.GET_TOPIC_BOUNDS: request(QueryBounds, extension.bounds, "topic"),
    codes.HOLD_QUEUES: extension.hold,
    codes.GREET_NODE: extension.greet,
    codes.REGISTER_PAGE: registration.register_page,
}

_NO_CONTROLLER: Final = "no controller answers at this port: controllers have ports of their own"
_NO_SLAVES: Final = "no replicas of RocketMQ's protocol follow here: Headgate's have their own"
_NO_COLD: Final = "cold reads are not throttled by this broker: the operating system decides what stays in memory"
_NO_ROCKSDB: Final = "this broker's store is not RocksDB"
_NO_CONTAINER: Final = "a node is one broker: start another node instead"

REASONS: Final[Mapping[int, str]] = {
    **dict.fromkeys((*range(1001, 1007), *range(1008, 1019)), _NO_CONTROLLER),
    **dict.fromkeys((905, 906, 908), _NO_SLAVES),
    **dict.fromkeys((902, 903), _NO_CONTAINER),
    **dict.fromkeys((2001, 2002, 2004), _NO_COLD),
    **dict.fromkeys((354, 355), _NO_ROCKSDB),
    45: "delayed messages have no offsets of their own here: they are in one wheel",
    60: "the timer wheel is rebuilt from the log: there is no checkpoint of it to copy",
    61: "timers are counted on the node's metrics page",
    217: "a topic has a route as soon as its broker has it: create it there with code 17",
    513: "static topics are not served by this broker: a topic's queues are its own",
    5001: "there is one timer engine, and it is on",
    200056: "leases are kept in the log: there is no other store of them to go back to",
}
"""Request code -> reason for response code 3: the remark of the reply."""
