"""Bytes written to the log for bytes received, for each command of each protocol (`benchmarks/written.py` prints them)."""

from __future__ import annotations

import pytest

from benchmarks.written import Written, measure
from benchmarks.written_cases import CASES
from domain.client.channel import ChannelCommand
from domain.command import Command
from gateway.connection.client_connection import ClientConnection
from gateway.guard.throttle import Throttle
from gateway.node.use_cases import all_writes

NO_CASE = {
    "AcceptDeliveries", "RejectDeliveries", "PutTopic", "UpdateUser", "DeletePolicies",
    "DeleteOscoreContext", "ResumeTransaction", "RedriveGroup", "Redrive", "ResetSubscription", "TestSubscription",
    "GrantConsent", "ChangeDataTopic",
}  # fmt: skip
"""Commands without a case: each writes as another one does, and what is given again counts (`ClientConnection.wrote`)."""


Found = tuple[list[Written], set[type[Command]]]


@pytest.fixture(scope="module")
def found() -> Found:
    """(what each case has written, the commands that were carried out)."""
    kinds: set[type[Command]] = set()
    handle = Throttle.handle

    def seen(self: Throttle, connection: ClientConnection, command: Command) -> None:
        kinds.add(type(command))
        handle(self, connection, command)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Throttle, "handle", seen)
        written = list(measure(CASES))
    return written, kinds


def test_no_command_writes_more_than_the_bound_without_a_reason(found: Found) -> None:
    above = [each.row() for each in found[0] if each.written > each.allowed and not each.case.reason]
    assert above == []


def test_what_is_written_beyond_the_bound_is_charged(found: Found) -> None:
    free = [each.row() for each in found[0] if each.written - each.allowed > each.charged + each.paid]
    assert free == []


def test_an_exception_that_is_none_any_more_goes(found: Found) -> None:
    assert [each.row() for each in found[0] if each.case.reason and each.written <= each.allowed] == []


def test_each_case_writes_and_each_command_that_writes_has_a_case(found: Found) -> None:
    written, kinds = found
    assert [each.row() for each in written if not each.written] == []
    writes = all_writes()
    missing = {kind.__name__ for kind in (writes.setting | writes.leaving | writes.settling) - kinds}
    assert sorted(missing) == sorted(NO_CASE)
    assert ChannelCommand not in kinds
