"""Requests that the node sends to a client over the client's connection: codes 221, 307, 309 and 326; and the replies.

RocketMQ's Broker2Client, ClientRemotingProcessor, ResetOffsetBody, ReplyMessageRequestHeader.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from domain import address
from domain.client.client_inquiry import (
    ClientAnswered,
    ConsumptionRequest,
    Inquiry,
    PositionsRequest,
    ReplyDelivery,
    RunningInfoRequest,
)
from domain.errors import ErrorCode, Failure
from domain.message.record import Record
from protocols.remoting import codes
from protocols.remoting.client import NodeInfo
from protocols.remoting.clients.pull import properties_for_client, without_origin
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire import bean, fastjson
from protocols.remoting.wire.frame import Frame, encode
from protocols.remoting.wire.header import LANGUAGES

CPP: Final = LANGUAGES.index("CPP")
"""Language of the C++ client, which cannot read a JSON map whose keys are objects: it gets a list instead."""


def inquiry_request(node: NodeInfo, opaque: int, inquiry: Inquiry) -> bytes:
    """The request frame of an inquiry: code 307 for running info, 221 for positions, 309 for a message, 326 for a reply."""
    about = inquiry.about
    if isinstance(about, RunningInfoRequest):
        fields = {
            "consumerGroup": about.group,
            "clientId": inquiry.client_id,
            "jstackEnable": "true" if about.stacks else "false",
        }
        return encode(codes.GET_RUNNING_INFO, opaque, fields=fields)
    if isinstance(about, PositionsRequest):
        return encode(codes.GET_CLIENT_STATUS, opaque, fields={"topic": about.topic, "group": about.group})
    if isinstance(about, ConsumptionRequest):
        return _consume_request(node, opaque, inquiry.client_id, about)
    return _reply_request(node, opaque, about)


def _consume_request(node: NodeInfo, opaque: int, client_id: str, about: ConsumptionRequest) -> bytes:
    record = Record(about.record)
    fields = {
        "consumerGroup": about.group,
        "clientId": client_id,
        "msgId": about.message_id or address.offset_message_id(record.store_host, record.physical_offset),
        "brokerName": node.broker,
        "topic": record.topic,
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
    return encode(codes.CONSUME_DIRECTLY, opaque, fields=fields, body=without_origin(about.record))


def _reply_request(node: NodeInfo, opaque: int, about: ReplyDelivery) -> bytes:
    message = about.message
    fields = {
        "producerGroup": "DEFAULT_PRODUCER",
        "topic": message.topic,
        "defaultTopic": address.TEMPLATE_TOPIC,
        "defaultTopicQueueNums": "1",
        "queueId": str(max(0, message.queue_id)),
        "sysFlag": str(message.sys_flag),
        "bornTimestamp": str(message.born_ms),
        "flag": str(message.flag),
        "properties": properties_for_client(message.properties).decode("utf-8", "replace"),
        "reconsumeTimes": str(message.reconsume_times),
        "unitMode": "false",
        "bornHost": address.host_text(message.born_host),
        "storeHost": address.host_text(node.store_host),
        "storeTimestamp": str(about.store_ms),
    }
    return encode(codes.PUSH_REPLY, opaque, fields=fields, body=message.body)


def client_answered(inquiry: Inquiry, frame: Frame) -> ClientAnswered:
    """The client's reply to `inquiry` -> ClientAnswered, with a Failure when the client refused or the body is malformed."""
    if frame.code != codes.SUCCESS:
        text = f"the client <{inquiry.client_id}> says: {frame.remark or f'code {frame.code}'}"
        offline = isinstance(inquiry.about, RunningInfoRequest | ConsumptionRequest)
        return ClientAnswered(inquiry.serial, Failure(ErrorCode.GROUP_OFFLINE if offline else ErrorCode.CLIENT_UNKNOWN, text))
    if not isinstance(inquiry.about, PositionsRequest):
        return ClientAnswered(inquiry.serial, frame.body)
    try:
        table = bean.table(bean.read(frame.body), "messageQueueTable")
        return ClientAnswered(inquiry.serial, [_place(key, offset) for key, offset in table.items()])
    except RequestError as error:
        return ClientAnswered(inquiry.serial, Failure(ErrorCode.CLIENT_UNKNOWN, error.remark))


def _place(key: str, offset: object) -> tuple[str, str, int, int]:
    queue = bean.read(key.encode())
    where = (bean.text(queue, "brokerName"), bean.text(queue, "topic"), bean.number(queue, "queueId"))
    return (*where, bean.number({"offset": offset}, "offset"))


def reset_body(node: NodeInfo, topic: str, offsets: Sequence[tuple[int, int]], *, listed: bool) -> bytes:
    """A ResetOffsetBody, without blanks: the Go client splits it as text. `listed`: a list of queues, for the C++ client."""
    queues: list[tuple[Mapping[str, object], int]] = [
        (fastjson.queue(node.broker, topic, queue_id), offset) for queue_id, offset in offsets
    ]
    if listed:
        return fastjson.dumps({"offsetTable": [{**queue, "offset": offset} for queue, offset in queues]})
    return b'{"offsetTable":' + fastjson.keyed(queues) + b"}"
