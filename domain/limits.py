"""Bounds that several protocols and the store share (docs/ARCHITECTURE.md, bounds). Units are in the names."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""Body of one message."""
PROPERTIES_BYTES_MAX: Final = 32_767
"""Properties of one message in stored form: their length has 16 bits, signed (RocketMQ's MessageDecoder)."""
NODE_MARKS_BYTES_MAX: Final = 1_024
"""What of them is for the marks of the node, so that each copy that it makes of a message can be stored."""
CLIENT_PROPERTIES_BYTES_MAX: Final = PROPERTIES_BYTES_MAX - NODE_MARKS_BYTES_MAX
"""Properties of one message that a client may send, with those that an adapter makes of the client's own words."""
PARKED_MARKS_BYTES_MAX: Final = 320
"""Marks of a delayed message that waits: its topic, of at most 255 characters, its queue and its time."""
MARKED_ID_BYTES_MAX: Final = 64
"""An id of a message that is written into a mark of the node."""
ENVELOPE_BYTES_MAX: Final = 6 * 1024 * 1024
"""One CloudEvent or message in JSON, where a body is base64."""
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
"""One batch of RocketMQ."""
CLOUDEVENTS_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
"""One batch of CloudEvents in JSON."""
MQTT_PACKET_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024
"""One MQTT packet: a body, its topic and its properties."""
REMOTING_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
"""One frame of RocketMQ's remoting protocol."""
COAP_BLOCK1_BYTES_MAX: Final = 1024 * 1024
"""One body sent in blocks (RFC 7959)."""

TOPIC_CHARS_MAX: Final = 127
"""Name of a topic."""
DERIVED_TOPIC_CHARS_MAX: Final = 255
"""Name of a retry topic or dead-letter topic, which contains a group and a topic."""
GROUP_CHARS_MAX: Final = 120
"""Name of a consumer group."""
PATH_BYTES_MAX: Final = 4_096
"""One MQTT topic name or topic filter."""
PATH_LEVELS_MAX: Final = 128
"""Levels of one MQTT topic name or topic filter."""
MESSAGE_GROUP_BYTES_MAX: Final = 64
"""Ordering key (message group) of one message."""

RECEIVE_MESSAGES_MAX: Final = 32
"""Messages of one Receive."""
RECEIVE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Records of one Receive; it has at least one message, and ends with the one that reaches the bound."""
QUERY_MESSAGES_MAX: Final = 64
"""Messages of one QueryMessages."""
PULL_BYTES_MAX: Final = 4 * 1024 * 1024
"""Records of one Pull."""
INVISIBLE_MS_MAX: Final = 12 * 3600 * 1000
"""Length of one lease."""
WAIT_MS_MAX: Final = 30_000
"""Time that a long poll is held."""
SMALL_ANSWER_BYTES: Final = 4_096
"""Answers of up to this size are sent though the client, or others of its host, have not read what they were sent before."""
DELAY_MS_MAX: Final = 366 * 86_400 * 1000
"""Delay of one message."""
LONG_POLLS_PER_KEY_MAX: Final = 1_024
"""Requests that are held for one group and topic."""
LONG_POLLS_MAX: Final = 100_000
"""Requests that are held in all."""
LEASES_PER_QUEUE_MAX: Final = 10_000
"""Leases of one group on one queue."""
TRANSACTIONS_OPEN_MAX: Final = 500_000
"""Half messages that are undecided."""
FOLLOWED_QUEUES_MAX: Final = 256
"""Queues of one topic that one FollowTopic reads: their offsets are in the id of every event."""
QUEUE_ID_MAX: Final = (1 << 31) - 1
"""The highest queue id that a record can hold."""
QUEUES_PER_TOPIC_MAX: Final = 65_536
"""Queues of one topic."""
BATCH_MESSAGES_MAX: Final = 16_384
"""Messages of one batch."""

HANDSHAKE_NS: Final = 10_000_000_000
"""Time from the start of a connection to the end of its handshake."""
FRAME_NS: Final = 10_000_000_000
"""Time from the first byte of a frame to its last."""
SECOND_NS: Final = 1_000_000_000
MILLISECOND_NS: Final = 1_000_000
CONTROLLERS_MAX: Final = 9
"""Controllers of one group."""
