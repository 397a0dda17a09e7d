"""Bounds that every protocol shares (docs/ARCHITECTURE.md, bounds). Bytes, milliseconds and counts, as the names say."""

from __future__ import annotations

from typing import Final

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
PROPERTIES_BYTES_MAX: Final = 32_767
ENVELOPE_BYTES_MAX: Final = 6 * 1024 * 1024
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
CLOUDEVENTS_BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
MQTT_PACKET_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024
REMOTING_FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
COAP_BLOCK1_BYTES_MAX: Final = 1024 * 1024

TOPIC_CHARS_MAX: Final = 127
DERIVED_TOPIC_CHARS_MAX: Final = 255
GROUP_CHARS_MAX: Final = 120
PATH_BYTES_MAX: Final = 4_096
PATH_LEVELS_MAX: Final = 128
MESSAGE_GROUP_BYTES_MAX: Final = 64

RECEIVE_MESSAGES_MAX: Final = 32
QUERY_MESSAGES_MAX: Final = 64
PULL_BYTES_MAX: Final = 4 * 1024 * 1024
INVISIBLE_MS_MAX: Final = 12 * 3600 * 1000
WAIT_MS_MAX: Final = 30_000
UNREAD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Answers of one connection that its client has not read yet. Above it, only answers up to SMALL_ANSWER_BYTES are added."""
SMALL_ANSWER_BYTES: Final = 4_096
"""An answer of at most this size is always added: the number of requests in progress bounds their sum."""
DELAY_MS_MAX: Final = 366 * 86_400 * 1000
LONG_POLLS_PER_KEY_MAX: Final = 1_024
LONG_POLLS_MAX: Final = 100_000
LEASES_PER_QUEUE_MAX: Final = 10_000
TRANSACTIONS_OPEN_MAX: Final = 500_000
TOPICS_MAX: Final = 1_000_000
QUEUES_PER_TOPIC_MAX: Final = 65_536
BATCH_MESSAGES_MAX: Final = 16_384

HANDSHAKE_NS: Final = 10_000_000_000
FRAME_NS: Final = 10_000_000_000
SECOND_NS: Final = 1_000_000_000
MILLISECOND_NS: Final = 1_000_000
