"""Management by curl: groups, users, policies, transactions, recall; and a generated client."""

from __future__ import annotations

import base64
import json
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from tests.interop.node import Node
from tests.interop.webhooks.api import Api
from tests.interop.workshop import made, step
from tests.patience import until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
ADMIN = "root:the-first-super-user"


def received(api: Api, topic: str, group: str = "g") -> list[str]:
    found = api.call("POST", f"/v1/groups/{group}/topics/{topic}:receive?max=32&wait_ms=300&invisible_ms=60000")[1]
    return [base64.b64decode(each["body"]).decode() for each in found["messages"]] if found else []


def test_groups_transactions_and_recall(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        api = Api(node)
        assert api.call("GET", "/v1/groups/shop")[0] == 404
        assert api.call("PUT", "/v1/groups/shop", {"retry_max": 3, "attributes": {"note": "x"}})[0] == 204
        status, found = api.call("GET", "/v1/groups/shop")
        assert (status, found["retry_max"], found["attributes"]) == (200, 3, {"note": "x"})
        assert "shop" in [each["name"] for each in api.call("GET", "/v1/groups")[1]["groups"]]
        assert api.call("PUT", "/v1/groups/shop", {"unknown": 1})[0] == 400

        status, prepared = api.call("POST", "/v1/topics/orders/messages:prepare", b"pears")
        assert status == 201
        assert received(api, "orders") == []
        path = f"/v1/topics/orders/transactions/{prepared['transaction']}"
        assert api.call("POST", f"{path}:commit")[0] == 204
        assert api.call("POST", f"{path}:commit")[0] == 204, "again"
        until(lambda: received(api, "orders") == ["pears"], 30, lambda: "")
        assert api.call("POST", f"{path}:rollback")[0] == 404, "decided otherwise"
        other = api.call("POST", "/v1/topics/orders/messages:prepare", b"never")[1]["transaction"]
        assert api.call("POST", f"/v1/topics/orders/transactions/{other}:rollback")[0] == 204

        status, late = api.call("POST", "/v1/topics/orders/messages?delay_ms=1500", b"late")
        assert status == 201
        assert api.call("POST", "/v1/topics/orders:recall", {"recall": late["recall"]})[1] == {"id": late["id"]}
        api.send(b"last", "orders")
        until(lambda: received(api, "orders") == ["last"], 30, lambda: "")
        assert received(api, "orders") == []

        status, found = api.call("GET", "/v1/groups/g/progress?topic=orders")
        assert (status, sum(each["next"] for each in found["queues"])) == (200, 2)
        assert api.call("POST", "/v1/groups/g/topics/orders:reset?to=0")[0] == 200
        until(lambda: sorted(received(api, "orders")) == ["last", "pears"], 30, lambda: "")
        assert api.call("DELETE", "/v1/groups/g")[0] == 204
        assert api.call("DELETE", "/v1/groups/g")[0] == 404


def test_dead_letters_of_a_group_are_redriven_to_it_alone(tmp_path: Path) -> None:
    with Node(tmp_path, "--admin", ADMIN) as node:
        root, anna = Api(node, ADMIN), Api(node, "anna:secret")
        root.call("POST", "/v1/users/anna", {"password": "secret"})
        root.call("PUT", "/v1/groups/g", {"retry_max": 0})
        root.send(b"poison", "orders")
        path = "/v1/groups/g/topics/orders:receive?max=10&invisible_ms=50&wait_ms=100"

        def dead() -> bool:
            root.call("POST", path)
            found = root.call("GET", "/v1/topics/%25DLQ%25g/queues/0?max=10")
            return found[0] == 200 and len(found[1]["messages"]) == 1

        until(dead, 60, lambda: "the group gives up")
        assert anna.call("POST", "/v1/groups/g:redrive")[0] == 403
        root.call("PUT", "/v1/users/anna/policies", {"resource": "Group:g", "actions": ["Update"]})
        assert anna.call("POST", "/v1/groups/g:redrive?max=0")[0] == 400
        assert anna.call("POST", "/v1/groups/g:redrive")[1] == {"redriven": 1}
        assert anna.call("POST", "/v1/groups/g:redrive")[1] == {"redriven": 0}
        assert root.call("POST", "/v1/groups/nobody:redrive")[0] == 404
        status, found = root.call("POST", path.replace("invisible_ms=50", "invisible_ms=60000"))
        assert (status, [each["attempt"] for each in found["messages"]]) == (200, [1])
        status, found = root.call("POST", "/v1/groups/other/topics/orders:receive?max=10")
        assert len(found["messages"]) == 1, "what was sent, and not what was redriven"


def test_users_and_policies(tmp_path: Path) -> None:
    with Node(tmp_path, "--admin", ADMIN) as node:
        root, anna = Api(node, ADMIN), Api(node, "anna:secret")
        assert Api(node).call("GET", "/v1/users")[0] == 401
        assert root.call("POST", "/v1/users/anna", {"password": "secret"})[0] == 204
        assert root.call("POST", "/v1/users/anna", {"password": "secret"})[0] == 400
        assert root.call("GET", "/v1/users/anna")[1] == {"name": "anna", "super": False, "enabled": True}
        assert "secret" not in json.dumps(root.call("GET", "/v1/users")[1])
        assert anna.call("GET", "/v1/users")[0] == 403
        assert anna.call("POST", "/v1/topics/orders/messages", b"x")[0] == 403
        policy = {"resource": "Topic:orders", "actions": ["Pub", "Create"]}
        assert root.call("PUT", "/v1/users/anna/policies", policy)[0] == 204
        (found,) = root.call("GET", "/v1/users/anna/policies")[1]["policies"]
        assert (found["resource"], found["decision"]) == ("Topic:orders", "Allow")
        assert anna.call("POST", "/v1/topics/orders/messages", b"x")[0] == 201
        assert root.call("PUT", "/v1/users/anna/policies", {"resource": "Topic:orders", "actions": ["Fly"]})[0] == 400
        assert root.call("DELETE", "/v1/users/anna/policies?resource=Topic:orders")[0] == 204
        assert anna.call("POST", "/v1/topics/orders/messages", b"x")[0] == 403
        assert root.call("PATCH", "/v1/users/anna", {"enabled": False})[0] == 204
        assert anna.call("POST", "/v1/topics/orders/messages", b"x")[0] == 401
        assert root.call("DELETE", "/v1/users/anna")[0] == 204
        assert root.call("GET", "/v1/users/anna")[0] == 404


def test_subscriptions_belong_to_their_user(tmp_path: Path) -> None:
    with Node(tmp_path, "--admin", ADMIN) as node:
        root, anna, bert = Api(node, ADMIN), Api(node, "anna:secret"), Api(node, "bert:secret")
        for name in ("anna", "bert"):
            root.call("POST", f"/v1/users/{name}", {"password": "secret"})
            root.call("PUT", f"/v1/users/{name}/policies", {"resource": "Topic:orders", "actions": ["Sub"]})
        document: dict[str, Any] = {
            "source": "orders",
            "sink": "https://sink.invalid/",
            "protocol": "HTTP",
            "config": {"verify": False},
        }
        assert anna.call("POST", "/subscriptions", {**document, "source": "others"})[0] == 403
        assert anna.call("POST", "/subscriptions", {**document, "config": {"replyTopic": "orders"}})[0] == 403
        root.call("PUT", "/v1/topics/orders", {})
        status, found = anna.call("POST", "/subscriptions", document)
        assert status == 201, found
        path = f"/subscriptions/{found['id']}"
        for verb in (":pause", ":resume", ":redrive", ":test", ":reset?to=end"):
            assert bert.call("POST", f"{path}{verb}")[0] == 404
        for method, tail in (("GET", ""), ("DELETE", ""), ("GET", "/attempts"), ("PUT", "")):
            assert bert.call(method, f"{path}{tail}", document if method == "PUT" else None)[0] == 404
        assert bert.call("GET", "/subscriptions")[1] == {"subscriptions": []}
        assert root.call("GET", path)[0] == 200
        root.call("DELETE", "/v1/users/anna/policies")
        until(lambda: root.call("GET", path)[1]["status"] == "suspended", 30, lambda: "")
        assert "rights of anna" in root.call("GET", path)[1]["reason"]


GENERATOR = "openapi-python-client==0.29.1"
CLIENT = """
import sys
from headgate_client import Client
from headgate_client.api.topics import get_topic, get_topics
client = Client(base_url=sys.argv[1])
assert get_topic.sync("orders", client=client).name == "orders"
assert "orders" in [each.name for each in get_topics.sync(client=client).topics]
"""


def generator() -> Path:
    """The generator of clients, in an environment of its own: it wants older packages than Headgate."""

    def make(folder: Path) -> None:
        venv.create(folder / "venv", with_pip=True)
        step([str(folder / "venv" / "bin" / "pip"), "install", "-q", GENERATOR], folder, "a generator of OpenAPI clients")

    return made("openapi-generator", [GENERATOR], make) / "venv" / "bin"


def test_a_client_is_generated_and_works(tmp_path: Path) -> None:
    programs = generator()
    program = str(programs / "openapi-python-client")
    with Node(tmp_path / "node") as node:
        url = f"http://127.0.0.1:{node.port('http')}"
        command = [program, "generate", "--url", f"{url}/v1/openapi.json", "--meta", "none"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
        assert said.returncode == 0, said.stdout + said.stderr
        warnings = [line for line in (said.stdout + said.stderr).splitlines() if line.startswith("WARNING")]
        # Media types that this generator does not know.
        known = ("/v1/topics/{path}/messages:batch", "/v1/topics/{path}/messages:stream", ":consume", "/ce/{path}")
        assert all(any(path in line for path in known) for line in warnings), said.stdout
        Api(node).send(b"x", "orders")
        done = subprocess.run(
            [str(programs / "python"), "-c", CLIENT, url], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
