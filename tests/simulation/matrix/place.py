"""A node with access control, users with chosen rights, and what requests are about."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from domain.access.access import ALL, CLUSTER, DENY, EVERY, GROUP, TOPIC, AccessPolicy, Need, User
from domain.errors import Failure
from gateway.node.settings import Config
from protocols.remoting import codes
from tests.simulation.http_caller import HttpCaller
from tests.simulation.tool import Tool
from tests.simulation.world import World

TOPIC_NAME: Final = "sim"
GROUP_NAME: Final = "workers"
OTHER: Final = "other"
"""A topic that requests about all topics do not name."""
PASSWORD: Final = "wonderland"


class Person(NamedTuple):
    """Who asks. `name` "": a client without credentials."""

    name: str
    password: str = PASSWORD

    @property
    def fields(self) -> dict[str, str]:
        """The field Authorization of HTTP (RFC 7617)."""
        import base64

        text = base64.b64encode(f"{self.name}:{self.password}".encode()).decode()
        return {"authorization": f"Basic {text}"} if self.name else {}


ROOT: Final = Person("root")
NOBODY: Final = Person("")


class Place:
    """The node. `root` is its administrator, and puts in order again what requests have changed.

    sent   messages that were stored in the topic for requests to be about
    """

    def __init__(self, limits: Mapping[str, int] | None = None) -> None:
        """`limits`: the table `[limits]`; None: wrong passwords make nobody wait."""
        tables: dict[str, dict[str, object]] = {
            "http": {"event_routes": [{"topic": TOPIC_NAME}]},
            "limits": {"failed_logins": 0, **(limits or {})},
        }
        self.world = World(271, Config(admin=f"{ROOT.name}:{ROOT.password}", tables=tables), gateways=0)
        self.world.start()
        self.root = Tool(self.world, "root", ROOT.name, ROOT.password)
        self._people: dict[tuple[AccessPolicy, ...], Person] = {}
        self._serial = 0
        self.sent = 0
        self.furnish()

    def serial(self) -> int:
        """A number that was not given before."""
        self._serial += 1
        return self._serial

    def furnish(self) -> None:
        """The topics, the group and the value that requests are about, as they were at first."""
        for name in (TOPIC_NAME, OTHER):
            self.root.topic(name, 1, message_type="MIXED")
        self.root.group(GROUP_NAME)
        self.root.call(codes.SET_READABLE, {"group": GROUP_NAME, "topic": TOPIC_NAME, "readable": "true"})
        caller = HttpCaller(self.world)
        if caller.ask("GET", f"/v1/latest/{TOPIC_NAME}/a", more=ROOT.fields)[0] == 404:
            more = {**ROOT.fields, "mq-retain": "true", "mq-queue": "0"}
            assert caller.ask("POST", f"/v1/topics/{TOPIC_NAME}/a/messages", b"value", more=more)[0] == 201
            self.sent += 1

    def person(self, policies: Sequence[AccessPolicy]) -> Person:
        """A user with these policies, and no others."""
        key = tuple(policies)
        found = self._people.get(key)
        if found is None:
            found = self._people[key] = Person(f"u{len(self._people)}")
            assert self.world.parts is not None
            records = self.world.parts.access_records
            assert records is not None
            outcomes: list[None | Failure] = []
            records.put_user(User(found.name, found.password), outcomes.append)
            if policies:
                records.put_policies(found.name, policies, outcomes.append)
            self.world.clock.run_until(lambda: len(outcomes) == 1 + bool(policies), 1_000)
            assert outcomes == [None] * len(outcomes)
        return found

    def with_exactly(self, needs: Sequence[Need], variant: int = 0) -> Person:
        """A user with one action of each need; `variant` chooses among the actions of which one is enough."""
        return self.person([AccessPolicy(_resource(need), (need.actions[variant % len(need.actions)],)) for need in needs])

    def with_all_but(self, need: Need) -> Person:
        """A user who may do everything, but has not this right."""
        denied = f"{need.kind}:{OTHER}" if need.name == EVERY and need.kind != CLUSTER else _resource(need)
        return self.person([AccessPolicy("*", (ALL,)), AccessPolicy(denied, need.actions, DENY)])

    # What a request is about

    def transaction(self) -> str:
        """The id of an open transaction of the topic."""
        return str(self._made("POST", f"/v1/topics/{TOPIC_NAME}/messages:prepare", b"half")["transaction"])

    def delayed(self) -> str:
        """The recall handle of a delayed message of the topic."""
        return str(self._made("POST", f"/v1/topics/{TOPIC_NAME}/messages?delay_ms=600000", b"late")["recall"])

    def user(self) -> str:
        """The name of a user whom requests may change."""
        return self.person([AccessPolicy(f"Topic:{self.serial()}", (ALL,))]).name

    def device(self) -> str:
        """The name of a user who has a security context of OSCORE."""
        name = self.user()
        context = {"device_id": "01", "node_id": "", "secret": "00" * 16, "id_context": f"{self.serial():08x}"}
        target = f"/v1/users/{name}/oscore"
        status, _, body = HttpCaller(self.world).ask("PUT", target, json.dumps(context).encode(), more=ROOT.fields)
        assert status == 204, body
        return name

    def subscription(self, owner: Person) -> str:
        """The id of a subscription that `owner` has made."""
        document = {"source": TOPIC_NAME, "sink": "https://example.com/hook", "protocol": "HTTP", "config": {"verify": False}}
        return str(self._made("POST", "/subscriptions", json.dumps(document).encode(), owner)["id"])

    def _made(self, method: str, target: str, content: bytes, who: Person = ROOT) -> dict[str, object]:
        status, _, body = HttpCaller(self.world).ask(method, target, content, more=who.fields)
        assert status in (200, 201), (status, body)
        found: dict[str, object] = json.loads(body)
        return found

    def state(self) -> list[object]:
        """What administrators see of the node, without the users and subscriptions that requests are about."""
        asked = (
            codes.GET_ALL_TOPICS,
            codes.GET_ALL_MODES,
            codes.GET_BROKER_CONFIG,
            codes.GET_NAMESRV_CONFIG,
            codes.GET_CLUSTER,
        )
        told: list[object] = [self.root.call(code).body for code in asked]
        for code, table in ((codes.GET_ALL_GROUPS, "subscriptionGroupTable"), (codes.GET_ALL_OFFSETS, "offsetTable")):
            rows = json.loads(self.root.call(code).body)[table]
            told.append({name: row for name, row in rows.items() if "webhook_" not in name})
        told.append(HttpCaller(self.world).ask("GET", f"/v1/latest/{TOPIC_NAME}/a", more=ROOT.fields)[2])
        told.append(self.root.call(codes.LIST_USER).body.count(b"eve"))
        return [*told, self.world.end(TOPIC_NAME, 0) - self.sent, self.root.route(TOPIC_NAME)]


def _resource(need: Need) -> str:
    if need.kind == CLUSTER:
        return "Cluster:DefaultCluster"
    assert need.kind in (TOPIC, GROUP)
    return f"{need.kind}:{need.name}"
