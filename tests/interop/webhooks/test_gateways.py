"""Webhooks delivered by gateways apart from the store: gateways and the leader of the store group are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.node import Node
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.webhooks.api import Api
from tests.interop.webhooks.receiver import Receiver
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]
ALLOWED = {"HEADGATE_WEBHOOK_ALLOW": '["127.0.0.0/8"]'}


def gateway(folder: Path, group: StoreGroupNodes) -> Node:
    stores = ",".join(f"127.0.0.1:{node.port('remoting')}" for node in group.nodes)
    found = Node(folder, "--roles", "gateway", "--store", stores, verb="run", environment=ALLOWED)
    found.start()
    group.gateways.append(found)
    return found


def figure(node: Node, name: str) -> float:
    line = next(line for line in node.admin("/metrics").splitlines() if line.startswith(f"headgate_{name} "))
    return float(line.split()[-1])


def test_gateways_and_the_leader_are_killed(tmp_path: Path) -> None:
    environment = {"HEADGATE_WEBHOOK_DELIVER": "false"}
    with Receiver() as receiver, StoreGroupNodes(tmp_path, 2, environment=environment) as group:
        group.await_members(1, 2)
        gateways = [gateway(tmp_path / f"gateway-{number}", group) for number in (1, 2)]
        api = Api(gateways[0])
        identities = [
            api.subscribe(f"{receiver.url}/{number}", "hooked", retry=100, backoffDelay="PT0.2S") for number in range(6)
        ]
        sent: list[bytes] = []

        def send_to(caller: Api, count: int) -> None:
            for _ in range(count):
                body = b"%d" % len(sent)

                def taken(body: bytes = body) -> bool:
                    try:
                        return caller.call("POST", "/v1/topics/hooked/messages", body)[0] == 201
                    except OSError:
                        return False

                until(taken, 60, lambda: "a message is taken")
                sent.append(body)

        def delivered() -> bool:
            return {(each.path, each.body) for each in receiver.taken} >= {
                (f"/{number}", body) for number in range(6) for body in sent
            }

        def missing() -> str:
            found = {(each.path, each.body) for each in receiver.taken}
            return str([(number, body) for number in range(6) for body in sent if (f"/{number}", body) not in found][:10])

        send_to(api, 10)
        until(delivered, 60, missing)
        until(lambda: sum(figure(each, "webhook_subscriptions") for each in gateways) == 6, 30, lambda: "all have an owner")
        old = group.leader()
        group.kill(old)
        send_to(api, 10)
        until(delivered, 90, missing)
        group.start(old)
        group.await_members(1, 2)
        gateways[0].kill()
        other = Api(gateways[1])
        send_to(other, 10)
        until(delivered, 90, missing)
        assert figure(gateways[1], "webhook_subscriptions") == 6
        assert [other.status(identity)[0] for identity in identities] == ["active"] * 6
        told = [each["outcome"] for each in other.attempts(identities[0])].count("delivered")
        assert told >= 20, "those of the gateway that was killed may be missing, those of the leader's death are not"
