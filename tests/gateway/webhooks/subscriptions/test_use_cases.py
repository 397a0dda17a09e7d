"""Before an Apache cluster every call about webhooks is refused in words."""

from __future__ import annotations

import pytest

from domain.admin.group import RedriveGroup
from domain.admin.subscription import PutSubscription, QuerySubscriptions, Redrive, TestSubscription
from domain.command import Command
from domain.errors import ErrorCode
from domain.event import Refused
from gateway.webhooks.subscriptions.use_cases import NoSubscriptions, webhook_use_cases
from tests.gateway.usecase.bench import Bench, bench
from tests.simulation.kit.entropy import FixedEntropy

__all__ = ["bench"]


@pytest.mark.parametrize(
    "command",
    [PutSubscription(1, b"{}", "t"), QuerySubscriptions(1), TestSubscription(1, "x"), Redrive(1, "x"), RedriveGroup(1, "g")],
)
def test_every_call_is_refused_and_says_why(bench: Bench, command: Command) -> None:
    bench.handler.add(NoSubscriptions())
    [event] = bench.ask(command)
    assert isinstance(event, Refused)
    assert event.failure.code is ErrorCode.NOT_SUPPORTED
    assert "Apache RocketMQ cluster" in event.failure.text


def test_no_call_is_left_out(bench: Bench) -> None:
    """A command that a store of our own carries out has a refusal here."""
    store, handler = bench.store, bench.handler
    own = {command for each in webhook_use_cases(store, handler, bench.clock, FixedEntropy()) for command in each.verbs}
    assert own == set(NoSubscriptions().verbs)
