"""HTTP: every method of every route, over HTTP/1.1 and HTTP/2, and the streams as lines, as events and in a WebSocket."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from protocols.http.routes import ROUTES
from tests.simulation.http2_caller import Http2Caller
from tests.simulation.http_caller import HttpCaller
from tests.simulation.matrix.place import GROUP_NAME, ROOT, TOPIC_NAME, Person, Place
from tests.simulation.test_forbidden import RECEIPT

NOT_AUTHENTICATED: Final = "401"
NOT_ALLOWED: Final = "403"
UNKNOWN: Final = "404"
"""What those are told who ask for a subscription of others."""
NDJSON: Final = {"content-type": "application/x-ndjson"}
JSON: Final = {"content-type": "application/json"}
STRUCTURED: Final = {"content-type": "application/cloudevents+json"}
RECEIPTS: Final = json.dumps({"receipts": [RECEIPT]}).encode()
SUBSCRIPTION: Final = {
    "source": TOPIC_NAME, "sink": "https://example.com/hook", "protocol": "HTTP", "config": {"verify": False},
}  # fmt: skip
GROUPED: Final = {**SUBSCRIPTION, "config": {"verify": False, "group": GROUP_NAME}}
OWN: Final = "read, test, pause or delete a subscription"
RESUMED: Final = "resume or replace a subscription"
CONTEXT: Final = b'{"device_id":"01","node_id":"","secret":"000102030405060708090a0b0c0d0e0f","id_context":"{octets}"}'
UPGRADE: Final = {
    "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    operation   the row of the matrix that it belongs to
    target      `{…}` in it, and in `body`, stands for something that `Place` makes anew for each request
    body        the content
    fields      header fields
    socket      True: it opens a WebSocket
    """

    operation: str
    target: str
    body: bytes = b""
    fields: Mapping[str, str] = field(default_factory=dict)
    socket: bool = False


_T: Final = f"/v1/topics/{TOPIC_NAME}"
_G: Final = f"/v1/groups/{GROUP_NAME}"
_GT: Final = f"{_G}/topics/{TOPIC_NAME}"
EVENT: Final = json.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}).encode()

REQUESTS: Final[Mapping[str, tuple[Request, ...]]] = {
    "POST /ce/{path…}": (
        Request("send", f"/ce/{TOPIC_NAME}/a", EVENT, STRUCTURED),
        Request(
            "send", f"/ce/{TOPIC_NAME}", b"x", {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
        ),
        Request("send", f"/ce/{TOPIC_NAME}", b"[%b]" % EVENT, {"content-type": "application/cloudevents-batch+json"}),
        Request("send", f"/ce/{TOPIC_NAME}", EVENT, {**STRUCTURED, "prefer": "respond-async"}),
    ),
    "POST /": (
        Request("send", "/", EVENT, STRUCTURED),
        Request("send", "/", b"[%b]" % EVENT, {"content-type": "application/cloudevents-batch+json"}),
    ),
    "GET /v1/topics/{path…}:consume": (
        Request("read by offset", f"{_T}:consume"),
        Request("read by offset", f"{_T}:consume?from=first", fields={"accept": "text/event-stream"}),
        Request("read by offset", f"{_T}/a:consume"),
        Request("read by offset", f"{_T}:consume?path={TOPIC_NAME}/%23"),
        Request("read by offset", f"{_T}:consume?credit=1", socket=True),
    ),
    "GET /v1/groups/{group}/topics/{topic}:consume": (
        Request("receive", f"{_GT}:consume"),
        Request("receive", f"{_GT}:consume", fields={"accept": "text/event-stream"}),
        Request("receive", f"{_GT}:consume?credit=1", socket=True),
    ),
    "POST /v1/topics/{path…}/messages:stream": (Request("send", f"{_T}/messages:stream", b'{"text":"x"}\n', NDJSON),),
    "GET /v1/openapi.json": (Request("read the description", "/v1/openapi.json"),),
    "GET /v1/docs": (Request("read the description", "/v1/docs"),),
    "GET /v1/topics": (Request("list topics", "/v1/topics"),),
    "POST /v1/topics/{topic}:recall": (Request("recall", f"{_T}:recall", b'{"recall":"{delayed}"}', JSON),),
    "GET /v1/topics/{topic}": (Request("read a topic", _T),),
    "PUT /v1/topics/{topic}": (
        Request("create or change a topic", _T, b'{"retention_ms":3600000}', JSON),
    ),
    "DELETE /v1/topics/{topic}": (Request("delete a topic", _T),),
    "GET /v1/topics/{topic}/queues": (Request("read a topic", f"{_T}/queues"),),
    "GET /v1/topics/{topic}/queues/{queue}": (Request("read by offset", f"{_T}/queues/0?offset=0"),),
    "GET /v1/topics/{path…}/messages": (
        Request("find by key", f"{_T}/messages?key=k"), Request("find by key", f"{_T}/messages?id=i"),
    ),
    "POST /v1/topics/{path…}/messages": (
        Request("send", f"{_T}/messages", b"x"),
        Request("send", f"{_T}/a/messages", b"x", {"mq-retain": "true", "idempotency-key": "{serial}"}),
    ),
    "POST /v1/topics/{path…}/messages:batch": (Request("send", f"{_T}/messages:batch", b'[{"text":"x"}]', JSON),),
    "POST /v1/topics/{path…}/messages:prepare": (Request("send", f"{_T}/messages:prepare", b"x"),),
    "POST /v1/topics/{topic}/transactions/{transaction}:commit": (
        Request("end a transaction", f"{_T}/transactions/{{transaction}}:commit"),
    ),
    "POST /v1/topics/{topic}/transactions/{transaction}:rollback": (
        Request("end a transaction", f"{_T}/transactions/{{transaction}}:rollback"),
    ),
    "GET /v1/groups": (Request("list groups", "/v1/groups"),),
    "GET /v1/groups/{group}": (Request("read a group", _G),),
    "PUT /v1/groups/{group}": (Request("create or change a group", _G, b'{"retry_max":5}', JSON),),
    "DELETE /v1/groups/{group}": (Request("delete a group", _G),),
    "GET /v1/groups/{group}/progress": (
        Request("read the progress of a group", f"{_G}/progress"),
        Request("read the progress on a topic", f"{_G}/progress?topic={TOPIC_NAME}"),
    ),
    "POST /v1/groups/{group}:redrive": (Request("redrive a group", f"{_G}:redrive"),),
    "POST /v1/groups/{group}/topics/{topic}:reset": (Request("reset a group", f"{_GT}:reset?to=end"),),
    "GET /v1/users": (Request("list users", "/v1/users"),),
    "GET /v1/users/{user}": (Request("list users", f"/v1/users/{ROOT.name}"),),
    "POST /v1/users/{user}": (Request("change users", "/v1/users/eve{serial}", b'{"password":"a long one"}', JSON),),
    "PATCH /v1/users/{user}": (Request("change users", "/v1/users/{user}", b'{"enabled":false}', JSON),),
    "DELETE /v1/users/{user}": (Request("change users", "/v1/users/{user}"),),
    "GET /v1/users/{user}/oscore": (Request("list users", "/v1/users/{device}/oscore"),),
    "PUT /v1/users/{user}/oscore": (Request("change users", "/v1/users/{user}/oscore", CONTEXT, JSON),),
    "DELETE /v1/users/{user}/oscore": (Request("change users", "/v1/users/{device}/oscore"),),
    "GET /v1/users/{user}/policies": (Request("list policies", "/v1/users/{user}/policies"),),
    "PUT /v1/users/{user}/policies": (
        Request("change policies", "/v1/users/{user}/policies", b'{"resource":"Topic:x","actions":["Sub"]}', JSON),
    ),
    "DELETE /v1/users/{user}/policies": (Request("change policies", "/v1/users/{user}/policies"),),
    "POST /v1/groups/{group}/topics/{topic}:receive": (
        Request("receive", f"{_GT}:receive"), Request("receive", f"{_GT}:receive?wait_ms=20"),
    ),
    "POST /v1/groups/{group}/topics/{topic}:ack": (Request("acknowledge", f"{_GT}:ack", RECEIPTS, JSON),),
    "POST /v1/groups/{group}/topics/{topic}:nack": (Request("move the end of a lease", f"{_GT}:nack", RECEIPTS, JSON),),
    "POST /v1/groups/{group}/topics/{topic}:extend": (
        Request("move the end of a lease", f"{_GT}:extend", b'{"invisible_ms":60000,' + RECEIPTS[1:], JSON),
    ),
    "GET /subscriptions": (Request("list subscriptions", "/subscriptions"),),
    "POST /subscriptions": (
        Request("subscribe a webhook", "/subscriptions", json.dumps(SUBSCRIPTION).encode(), JSON),
        Request("subscribe a webhook to a group", "/subscriptions", json.dumps(GROUPED).encode(), JSON),
    ),
    "POST /subscriptions/{id}:pause": (Request(OWN, "/subscriptions/{subscription}:pause"),),
    "POST /subscriptions/{id}:resume": (Request(RESUMED, "/subscriptions/{subscription}:resume"),),
    "POST /subscriptions/{id}:test": (Request(OWN, "/subscriptions/{subscription}:test"),),
    "POST /subscriptions/{id}:redrive": (Request(OWN, "/subscriptions/{subscription}:redrive"),),
    "POST /subscriptions/{id}:reset": (Request(OWN, "/subscriptions/{subscription}:reset?to=end"),),
    "GET /subscriptions/{id}/attempts": (Request(OWN, "/subscriptions/{subscription}/attempts"),),
    "GET /subscriptions/{id}": (Request(OWN, "/subscriptions/{subscription}"),),
    "PUT /subscriptions/{id}": (
        Request(RESUMED, "/subscriptions/{subscription}", json.dumps(SUBSCRIPTION).encode(), JSON),
    ),
    "DELETE /subscriptions/{id}": (Request(OWN, "/subscriptions/{subscription}"),),
    "GET /v1/latest/{path…}": (Request("read the latest value", f"/v1/latest/{TOPIC_NAME}/a"),),
    "DELETE /v1/latest/{path…}": (Request("remove the latest value", f"/v1/latest/{TOPIC_NAME}/a"),),
}  # fmt: skip
OPEN: Final = (
    "OPTIONS /ce/{path…}", "OPTIONS /", "GET /subscriptions/{id}:consent", "POST /subscriptions/{id}:consent",
)  # fmt: skip
"""The handshake of WebHook, which browsers' preflight requests and senders without a name may ask for; and the consent of a
sink, whose credential is the key in its URL (tests/interop/cloudevents/test_receiving.py)."""


def served() -> set[str]:
    """Every method of every route."""
    return {f"{method.decode()} /{route.pattern}" for route in ROUTES for method in route.methods}


class Http:
    """Asks over one version: `1.1` or `2`."""

    def __init__(self, place: Place, version: str) -> None:
        self.place = place
        self.version = version

    def ask(self, request: Request, who: Person, owner: Person | None = None) -> str:
        """Send a request -> the status, or that of the record in the answer to an upload. `owner` has made what it is about."""
        place = self.place
        target, body = request.target, request.body
        makers: tuple[tuple[str, Callable[[], str]], ...] = (
            ("{serial}", lambda: str(place.serial())),
            ("{transaction}", place.transaction),
            ("{delayed}", place.delayed),
            ("{user}", place.user),
            ("{device}", place.device),
            ("{octets}", lambda: f"{place.serial():08x}"),
            ("{subscription}", lambda: place.subscription(owner or who)),
        )
        for name, make in makers:
            if name in target or name.encode() in body or name in request.fields.values():
                made = make()
                target, body = target.replace(name, made), body.replace(name.encode(), made.encode())
        fields = {key: value.replace("{serial}", str(place.serial())) for key, value in request.fields.items()}
        fields |= who.fields
        method = "GET" if request.socket else self._method(request)
        if self.version == "2":
            if request.socket:
                fields |= {"sec-websocket-version": "13"}
                status, _, content = Http2Caller(place.world).ask("CONNECT", target, more=fields, protocol="websocket")
            else:
                status, _, content = Http2Caller(place.world).ask(method, target, body, fields)
        else:
            fields |= UPGRADE if request.socket else {}
            caller = HttpCaller(place.world)
            status, _, content = caller.ask(method, target, body, more=fields)
            if target.endswith(":stream"):
                place.world.clock.run_for(50)
                content = caller.content()
            if caller.link is not None:
                caller.link.reset()
        if target.endswith(":stream") and status == 200:
            found = json.loads(content[content.index(b"{") : content.rindex(b"}") + 1])
            return str(found["error"]["status"]) if "error" in found else "200"
        return "done" if status in (101, 200, 201, 202, 204) else str(status)

    def _method(self, request: Request) -> str:
        return next(name.partition(" ")[0] for name, each in REQUESTS.items() if request in each)
