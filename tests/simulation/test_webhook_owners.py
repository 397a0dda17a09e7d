"""Owners of webhooks that were replaced: they lease nothing, send nothing, and their word about the sink does not count."""

from __future__ import annotations

import pytest

from domain.admin.subscription import ChangeStatus, SubscriptionFound
from domain.subscription.document import decode
from tests.simulation.kit.clock import PausableClock
from tests.simulation.test_webhooks import SEEDS, Hooks


@pytest.mark.parametrize("seed", range(SEEDS // 4))
@pytest.mark.parametrize("ordered", [False, True])
def test_an_owner_that_was_paused_and_replaced_leases_and_sends_nothing(seed: int, ordered: bool) -> None:
    """Its process stands still for 14 s; its claims have ended after 10 s, and what it waits for is in its sockets."""
    hooks = Hooks(seed, (200,))
    hooks.pausable.add("a")
    hooks.deliver("a")
    hooks.subscribe(verify=False, timeout="PT2S", ordered=ordered)
    hooks.world.clock.run_for(1_000 + hooks.chance.random() * 4_000)
    hooks.send(b"before")
    hooks.world.clock.run_for(1_000)
    life = hooks.processes["a"]
    assert isinstance(life, PausableClock)
    life.paused = True
    hooks.send(b"leased", key="k")  # to an owner that has still its claim
    hooks.deliver("b")
    hooks.world.clock.run_for(12_000)
    replaced = hooks.world.clock.monotonic_ns()
    hooks.send(b"later", key="k" if ordered else "")
    hooks.world.clock.run_for(2_000)
    taken = {each.body: each.owner for each in hooks.sink.arrivals}
    waits = {} if ordered else {b"later": "b"}  # for `leased`, which has the same key
    assert taken == {b"before": "a", **waits}, "the new owner waits for no lease of the old one"
    life.resume()
    hooks.world.clock.run_for(60_000)
    after = [each for each in hooks.sink.arrivals if each.began >= replaced]
    assert {each.owner for each in after} == {"b"}
    assert [each.body for each in after] == ([b"leased", b"later"] if ordered else [b"later", b"leased"]), "each once"


@pytest.mark.parametrize("seed", range(SEEDS // 4))
def test_what_an_owner_waited_for_goes_to_the_one_that_replaced_it(seed: int) -> None:
    """The Receive of a process that stands still waits longer than its claim holds."""
    hooks = Hooks(seed, (200,))
    hooks.pausable.add("a")
    hooks.deliver("a")
    hooks.subscribe(verify=False, timeout="PT2S")
    hooks.world.clock.run_for(1_000 + hooks.chance.random() * 4_000)
    life = hooks.processes["a"]
    assert isinstance(life, PausableClock)
    life.paused = True
    hooks.deliver("b")
    hooks.world.clock.run_for(14_000)
    hooks.send(b"later")
    hooks.world.clock.run_for(1_000)
    assert [(each.body, each.owner) for each in hooks.sink.arrivals] == [(b"later", "b")]


def test_the_word_of_an_owner_about_the_sink_counts_while_it_is_the_owner() -> None:
    """A process that was paused behind a 410 must not suspend what a person has repaired since, nor for another owner."""
    hooks = Hooks(3, (200,))
    hooks.deliver("a")
    subscription = hooks.subscribe(verify=False)
    hooks.world.clock.run_for(1_000)

    def change(epoch: int, version: int) -> str:
        found = hooks.ask(lambda ticket: ChangeStatus(ticket, subscription.id, "suspended", "410", epoch, version))
        assert isinstance(found, SubscriptionFound), found
        return decode(found.record).status.value

    assert change(0, 1) == "active", "an older claim"
    assert change(1, 0) == "active", "another version of the subscription"
    hooks.kill("a")
    hooks.deliver("b")
    hooks.world.clock.run_for(15_000)
    assert change(1, 1) == "active", "it was replaced"
    assert change(2, 1) == "suspended", "the word of the owner about the subscription as it is"
