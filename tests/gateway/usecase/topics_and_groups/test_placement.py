"""Placement: messages with one ordering key go to one queue, the others to the queues in turn."""

from __future__ import annotations

from collections import Counter

from domain.message import property as properties
from domain.message.message import Message
from domain.topic.topic import Topic
from gateway.usecase.topics_and_groups.placement import Placement, jump_hash

TOPIC = Topic("t", write_queues=8)


def test_messages_without_a_key_take_turns() -> None:
    placement = Placement()
    found: Counter[int] = Counter()
    for _ in range(80):
        placement.turn()
        found[placement.queue(TOPIC, Message("t", b""))] += 1
    assert found == dict.fromkeys(range(8), 10)


def test_the_messages_of_one_send_stay_together() -> None:
    placement = Placement()
    placement.turn()
    assert len({placement.queue(TOPIC, Message("t", b"")) for _ in range(5)}) == 1


def test_a_message_group_keeps_its_queue_and_groups_spread() -> None:
    placement = Placement()

    def queue(group: int) -> int:
        return placement.queue(TOPIC, Message("t", b"", properties.encode([("__SHARDINGKEY", f"group-{group}")])))

    first = [queue(group) for group in range(200)]
    assert first == [queue(group) for group in range(200)]
    assert set(first) == set(range(8))


def test_a_path_keeps_its_queue() -> None:
    placement = Placement()
    message = Message("t", b"", properties.encode([("originMqttTopic", "t/room/1")]))
    assert len({placement.queue(TOPIC, message) for _ in range(20)}) == 1


def test_jump_hash_moves_few_keys_when_a_queue_is_added() -> None:
    """Lamping and Veach: from n to n + 1 buckets a key stays, or moves to the new one."""
    for key in range(-500, 500):
        before, after = jump_hash(key * 7919, 8), jump_hash(key * 7919, 9)
        assert after in (before, 8)
