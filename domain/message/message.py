"""A message before it is stored, and the place where the log stored it."""

from __future__ import annotations

from typing import Final, final

# Values of `retain`.
RETAIN_NONE: Final = 0
RETAIN_SET: Final = 1
RETAIN_DELETE: Final = 2

# Bits of `sys_flag` (RocketMQ's MessageSysFlag).
SYS_COMPRESSED: Final = 0x1
SYS_PREPARED: Final = 0x4
SYS_COMMITTED: Final = 0x8
SYS_TRANSACTION: Final = 0xC
SYS_BORN_V6: Final = 0x10
SYS_STORE_V6: Final = 0x20
SYS_COMPRESSION_MASK: Final = 0x700
ANY_QUEUE: Final = -1
LOCAL_HOST: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"


@final
class Message:
    """One message as a sender gave it.

    body             bytes as received, compressed when `sys_flag` says so, never re-encoded
    properties       in stored form (domain.message.property); they hold UNIQ_KEY once the gateway has accepted the message
    queue_id         the queue, or ANY_QUEUE: the gateway chooses it, by the property __SHARDINGKEY when there is one
    message_id       value of UNIQ_KEY; "": the gateway makes an id and adds the property
    sys_flag         compression and transaction bits (SYS_…); SYS_PREPARED: a half message, hidden until it is committed
    flag             of the sender, not interpreted
    born_ms          the sender's time, epoch milliseconds
    born_host        the sender's address: 4 or 16 bytes, then 4 of port
    reconsume_times  redeliveries so far
    prepared_offset  offset of the half message, 0 outside transactions
    retain           RETAIN_SET: also store it as the latest value of its path; RETAIN_DELETE: also remove that value
    plain            True: none of its properties says how to store it, so that nobody looks for one: no id, path, ordering key,
                     priority, delivery time or idempotency key. The adapter that has made the properties knows
    """

    __slots__ = (
        "body", "born_host", "born_ms", "flag", "message_id", "plain", "prepared_offset", "properties", "queue_id",
        "reconsume_times", "retain", "sys_flag", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        body: bytes,
        properties: bytes = b"",
        *,
        queue_id: int = -1,
        message_id: str = "",
        sys_flag: int = 0,
        flag: int = 0,
        born_ms: int = 0,
        born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00",
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        retain: int = 0,
        plain: bool = False,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self.properties = properties
        self.message_id = message_id
        self.sys_flag = sys_flag
        self.flag = flag
        self.born_ms = born_ms
        self.born_host = born_host
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.retain = retain
        self.plain = plain


@final
class Placed:
    """Place of a stored message in the log. The caller may acknowledge the message when it gets this value.

    Of a half message and of a delayed message it is the place where they wait.

    physical_offset  byte offset in the log
    store_ms         store time, epoch milliseconds
    message_id       value of UNIQ_KEY
    recall_handle    recalls a delayed message (domain.delivery.recall), "": it cannot be recalled
    """

    __slots__ = ("message_id", "physical_offset", "queue_id", "queue_offset", "recall_handle", "store_ms")

    def __init__(
        self, queue_id: int, queue_offset: int, physical_offset: int, store_ms: int, message_id: str, recall_handle: str = ""
    ) -> None:
        self.queue_id = queue_id
        self.queue_offset = queue_offset
        self.physical_offset = physical_offset
        self.store_ms = store_ms
        self.message_id = message_id
        self.recall_handle = recall_handle
