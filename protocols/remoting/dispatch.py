"""Which request code is read by what. Codes that are not here are answered 3, with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from protocols.remoting import (
    admin,
    codes,
    give_back,
    member,
    node,
    offset,
    pull,
    query,
    receive,
    registration,
    relay,
    route,
    transaction,
)
from protocols.remoting.client import Client
from protocols.remoting.frame import Frame
from protocols.remoting.ticket import Outcome

Reader = Callable[[Client, Frame], Outcome]

READERS: Final[Mapping[int, Reader]] = {
    codes.PULL: pull.read,
    codes.LITE_PULL: pull.read,
    codes.QUERY_MESSAGE: query.by_key,
    codes.GET_CONSUMERS: query.consumers,
    codes.QUERY_OFFSET: offset.query,
    codes.UPDATE_OFFSET: offset.update,
    codes.SEARCH_OFFSET: offset.search,
    codes.GET_MAX_OFFSET: offset.maximum,
    codes.GET_MIN_OFFSET: offset.minimum,
    codes.GET_EARLIEST_TIME: offset.earliest,
    codes.VIEW_MESSAGE: offset.view,
    codes.HEARTBEAT: member.heartbeat,
    codes.UNREGISTER_CLIENT: member.leave,
    codes.GET_MEMBERS: member.members,
    codes.LOCK_QUEUES: member.lock,
    codes.UNLOCK_QUEUES: member.unlock,
    codes.CHECK_CLIENT: member.check,
    codes.QUERY_ASSIGNMENT: member.assign,
    codes.SET_REQUEST_MODE: member.set_mode,
    codes.SEND_BACK: give_back.read,
    codes.END_TRANSACTION: transaction.end,
    codes.RECALL: transaction.recall,
    codes.POP: receive.read,
    codes.ACK: receive.acknowledge,
    codes.BATCH_ACK: receive.acknowledge_batch,
    codes.CHANGE_INVISIBLE: receive.extend,
    codes.NOTIFICATION: receive.notify,
    codes.UPDATE_TOPIC: admin.put_topic,
    codes.UPDATE_TOPIC_LIST: admin.put_topics,
    codes.DELETE_TOPIC: admin.delete_topic,
    codes.GET_TOPIC: admin.topic,
    codes.GET_ALL_TOPICS: admin.topics,
    codes.GET_BROKER_SYSTEM_TOPICS: admin.system_topics,
    codes.GET_TOPIC_STATS: admin.statistics,
    codes.GET_PROGRESS: admin.progress,
    codes.UPDATE_GROUP: admin.put_group,
    codes.UPDATE_GROUP_LIST: admin.put_groups,
    codes.GET_GROUP: admin.group,
    codes.GET_ALL_GROUPS: admin.groups,
    codes.DELETE_GROUP: admin.delete_group,
    codes.RESET_OFFSET: relay.reset,
    codes.CLONE_OFFSETS: relay.clone,
    codes.GET_CONSUMER_STATUS: relay.status,
    codes.GET_RUNNING_INFO: relay.running_info,
    codes.CONSUME_DIRECTLY: relay.consume,
    codes.SEND_REPLY: relay.reply,
    codes.SEND_REPLY_V2: relay.reply,
    codes.GET_BROKER_CONFIG: node.configuration,
    codes.GET_RUNTIME_INFO: node.runtime,
    codes.GET_ROUTE: route.route,
    codes.GET_CLUSTER: route.cluster,
    codes.GET_TOPICS: route.topics,
    codes.GET_TOPICS_OF_CLUSTER: route.topics_of_cluster,
    codes.GET_SYSTEM_TOPICS: route.system_topics,
    codes.DELETE_TOPIC_ROUTE: route.drop,
    codes.PUT_KV: route.put_key,
    codes.GET_KV: route.get_key,
    codes.DELETE_KV: route.delete_key,
    codes.LIST_KV: route.list_keys,
    codes.WIPE_WRITE: route.wipe_write,
    codes.ADD_WRITE: route.add_write,
    codes.GET_NAMESRV_CONFIG: route.configuration,
    codes.UPDATE_NAMESRV_CONFIG: route.configure,
    codes.REGISTER_BROKER: registration.register,
    codes.UNREGISTER_BROKER: registration.unregister,
    codes.QUERY_DATA_VERSION: registration.compare,
    codes.BROKER_HEARTBEAT: registration.renew,
}

REASONS: Final[Mapping[int, str]] = {
    513: "static topics are not served by this broker",
    200052: "peeking is not served by this broker; pull instead",
}
