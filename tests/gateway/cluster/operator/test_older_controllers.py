"""What `headgate cluster` says where a controller of the version before does not know a change."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from domain.controller.answer import GroupRefusal
from domain.controller.change import FoundGroup, GroupChange, PromoteLearner, SetAcks
from gateway.cluster.operator import controllers as asked
from gateway.cluster.operator.controllers import ClusterControllers
from protocols.remoting import codes
from tests.controller.groups.sample import NAME, led
from tests.gateway.cluster.operator.scripted_controllers import ScriptedControllers
from tests.gateway.importing.scripted_server import Answer, ScriptedServer


@pytest.mark.parametrize("change", [SetAcks(NAME, 2), PromoteLearner(NAME, 3, 2, NAME), FoundGroup(NAME, 1)])
@pytest.mark.parametrize("leads", [True, False])
def test_a_change_that_a_controller_does_not_know_is_refused_by_name(
    change: GroupChange, leads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it leads, or another one does that has not answered."""
    monkeypatch.setattr(asked, "PATIENCE_S", 0.5)
    with ScriptedControllers(led((1, 2))) as here:
        here.leading = 1 if leads else 9

        def answer(code: int, fields: Mapping[str, str], body: bytes) -> Answer:
            if code == codes.CHANGE_STORE_GROUP:
                return codes.INVALID_PARAMETER, {}, b""
            return here.servers[1]._answer(code, fields, body)

        with ScriptedServer(answer) as before:
            controllers = ClusterControllers([here.addresses[0], before.address], None, None)
            assert controllers.change(change).refusal is GroupRefusal.OLD_VERSION
            controllers.close()
        assert here.changes == []
