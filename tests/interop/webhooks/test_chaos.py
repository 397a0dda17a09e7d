"""Kill -9 of the gateway that delivers, while deliveries run: every request that a receiver saw is in the log of attempts.

With SOAK=1 in the environment twelve gateways are killed, else three.
"""

from __future__ import annotations

import base64
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.interop.node import Node
from tests.interop.webhooks.api import Api
from tests.interop.webhooks.receiver import Choice, Receiver, Taken
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(560)]
KILLS = 12 if os.environ.get("SOAK") == "1" else 3
TOPICS = 4
SENT_A_ROUND = 60
ALLOWED = {"HEADGATE_WEBHOOK_ALLOW": '["127.0.0.0/8"]'}


def figure(node: Node, name: str) -> float:
    line = next(line for line in node.admin("/metrics").splitlines() if line.startswith(f"headgate_{name} "))
    return float(line.split()[-1])


def test_no_request_is_missing_in_the_log_of_attempts(tmp_path: Path) -> None:
    chance = random.Random(7)

    def answer(taken: Taken) -> Choice:
        """Some answers are late, so that there are always requests under way; some deliveries fail."""
        time.sleep(chance.choice((0.0, 0.0, 0.02, 0.3)))
        return (503 if chance.random() < 0.1 else 204), {}, b""

    store = Node(tmp_path / "store", "--roles", "store", verb="run", environment={"HEADGATE_WEBHOOK_DELIVER": "false"})
    with Receiver() as receiver, store:
        receiver.answer = answer
        address = f"127.0.0.1:{store.port('remoting')}"
        gateways = [
            Node(tmp_path / f"gateway-{at}", "--roles", "gateway", "--store", address, verb="run", environment=ALLOWED)
            for at in range(2)
        ]
        try:
            for each in gateways:
                each.start()
            api = Api(gateways[0])
            identities = [
                api.subscribe(
                    f"{receiver.url}/{at}", f"chaos{at}", verify=False, timeout="PT1S", backoffDelay="PT0.2S", retry=50,
                    ordered=at == 0, payload="structured" if at == 1 else "binary",
                )
                for at in range(TOPICS)
            ]  # fmt: skip
            sent: set[tuple[str, str]] = set()
            for kill in range(KILLS):
                sender = Api(gateways[(kill + 1) % 2])
                for number in range(SENT_A_ROUND):
                    at, body = number % TOPICS, f"{kill}-{number}"
                    sender.send(body.encode(), f"chaos{at}", mq_message_group=f"key{number % 3}")
                    sent.add((f"/{at}", body))
                seen = len(receiver.taken)
                until(lambda seen=seen: len(receiver.taken) > seen, 60)  # type: ignore[misc]
                gateways[kill % 2].kill()
                gateways[kill % 2].start()
            until(lambda: sent <= delivered(receiver), 180, lambda: f"{sorted(sent - delivered(receiver))[:10]}")
            until(lambda: quiet(gateways), 60, lambda: "requests are under way")
            api = Api(gateways[0])
            missing: Any = None

            def notified() -> bool:
                nonlocal missing
                missing = unrecorded(api, receiver, identities)
                return not missing

            until(notified, 60, lambda: f"{missing[:5]} of {len(receiver.taken)}")
            outcomes: list[str] = []

            def all_told() -> bool:
                """What is acknowledged has its attempt in the log; the last ones are told a little after their answers."""
                outcomes[:] = [each["outcome"] for identity in identities for each in attempts(api, identity)]
                return outcomes.count("delivered") >= len(sent)

            until(all_told, 60, lambda: f"{len(sent)} were sent, and {outcomes.count('delivered')} attempts are told")
            unknown = sum(figure(each, "webhook_unknown_total") for each in gateways)
            assert outcomes.count("unknown") >= unknown, "those that are counted are in the log, too"
        finally:
            for each in gateways:
                each.kill()


def delivered(receiver: Receiver) -> set[tuple[str, str]]:
    """(path, body) of what has arrived, in binary or structured form."""
    found: set[tuple[str, str]] = set()
    for each in list(receiver.taken):
        text = each.body.decode()
        if text.startswith("{"):
            event = json.loads(text)
            text = base64.b64decode(event["data_base64"]).decode() if "data_base64" in event else event["data"]
        found.add((each.path, text))
    return found


def quiet(gateways: list[Node]) -> bool:
    return sum(figure(each, "webhook_under_way") for each in gateways) == 0


def attempts(api: Api, identity: str) -> list[dict[str, Any]]:
    return list(api.call("GET", f"/subscriptions/{identity}/attempts?max=1000")[1]["attempts"])


def unrecorded(api: Api, receiver: Receiver, identities: list[str]) -> list[tuple[str, str, int]]:
    """(path, id, number of the try) of requests that no attempt tells of."""
    known = {
        (f"/{at}", each["messageId"], each["number"])
        for at, identity in enumerate(identities)
        for each in attempts(api, identity)
    }
    seen = {(each.path, each.fields["webhook-id"], int(each.fields["mq-attempt"])) for each in list(receiver.taken)}
    return sorted(seen - known)
