"""Runs with blocking clients are reproducible: the same seed gives the same commands at the same nanoseconds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation import test_access, test_interests, test_order, test_renewal, test_retries
from tests.simulation.world import World

SCENES: dict[str, Callable[[], None]] = {
    "remoting": lambda: test_retries.test_popped_and_given_back_or_left_it_comes_again_and_ends_as_a_dead_letter(2, "power"),
    "grpc": lambda: test_order.test_each_message_group_keeps_its_order_while_members_die(1, True),
    "renewal": lambda: test_renewal.test_free_within_a_minute_when_the_consumer_or_the_node_is_gone("kill"),
    "access": lambda: test_access.test_what_is_granted_and_revoked_counts_with_the_next_request("kill"),
    "lite": lambda: test_interests.test_an_idle_lite_topic_ends_and_begins_anew("kill"),
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_scene_repeats_exactly(scene: str) -> None:
    digests = []
    for _ in range(2):
        World.made.clear()
        SCENES[scene]()
        digests.append([world.ledger.digest() for world in World.made])
    assert digests[0] == digests[1]
    assert digests[0]
