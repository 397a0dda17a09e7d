"""A replica gets one id, also when the answer that gave it one was lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from controller.groups.groups import StoreGroups
from domain.controller.answer import GroupAnswer
from domain.controller.change import ApplyId, GroupChange
from domain.controller.group import StoreGroup
from gateway.replicas.enrolment import AGAIN_MS, Enrolment, LogFacts, ReplicaPlace
from gateway.replicas.identity import ReplicaIdentity
from tests.gateway.replicas.test_damage import Entropy
from tests.store.clock import VirtualClock
from tests.store.disk import MemoryDisk


class LossyControllers:
    """The real rules; the first answer to ApplyId is lost."""

    def __init__(self) -> None:
        self.groups = StoreGroups()
        self.applied: list[int] = []

    def ask(self, done: Callable[[StoreGroup | None, bool], None]) -> None:
        done(self.groups.group("g"), True)

    def change(self, change: GroupChange, done: Callable[[GroupAnswer | None], None]) -> None:
        answer = self.groups.apply(change)
        if isinstance(change, ApplyId):
            self.applied.append(change.id)
            if len(self.applied) == 1:
                done(None)
                return
        done(answer)


def test_an_answer_that_was_lost_costs_no_second_id() -> None:
    clock, controllers = VirtualClock(), LossyControllers()
    identity = ReplicaIdentity(MemoryDisk(clock), cast(Any, Entropy()))
    place = ReplicaPlace("c", "g", identity, "10.0.0.1:1", False)
    enrolled: list[int] = []
    enrolment = Enrolment(
        place, lambda: LogFacts(7, 0, 0, 0), cast(Any, controllers), clock, lambda own, _group: enrolled.append(own)
    )
    enrolment.start()
    clock.run_for(AGAIN_MS * 3)
    assert controllers.applied == [1, 1]
    assert enrolled == [1]
    group = controllers.groups.group("g")
    assert group is not None
    assert [each.id for each in group.replicas] == [1]
