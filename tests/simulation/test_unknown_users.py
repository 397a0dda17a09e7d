"""An unknown user and a wrong password get the same answer, word for word, by every protocol: no name can be tried out.

SCRAM and DTLS, whose proofs take several messages, have tests of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocols.grpc.messages import messaging_pb2 as pb
from protocols.mqtt.connect import Connack, Connect
from protocols.mqtt.property import NONE
from tests.simulation.channel import Channel
from tests.simulation.client import MqttClient
from tests.simulation.http2_caller import Http2Caller
from tests.simulation.http_caller import HttpCaller
from tests.simulation.matrix.place import ROOT, Person, Place
from tests.simulation.test_forbidden_grpc import CALLS
from tests.simulation.tool import Tool

UNKNOWN = Person("nosuch", "guess")
WRONG = Person(ROOT.name, "guess")
LIST_TOPICS, LIST_USERS = 21, 3005


def remoting(place: Place, who: Person) -> object:
    """(code, remark) of a question about the node and of one about users."""
    tool = Tool(place.world, "tool", who.name, who.password)
    answers = [tool.call(code, {}, b"") for code in (LIST_TOPICS, LIST_USERS)]
    return [(answer.code, answer.remark) for answer in answers]


def grpc(place: Place, who: Person) -> object:
    """(code, message) of a call."""

    class Signed(Channel):
        user, password = who

    channel = Signed(place.world, f"g{place.serial()}", None)
    told = channel.stream("QueryRoute", CALLS["QueryRoute"](), pb.QueryRouteResponse)
    return [(each.status.code, each.status.message) for each in told]


def http_1(place: Place, who: Person) -> object:
    """(status, content) over HTTP/1.1."""
    status, _, content = HttpCaller(place.world).ask("GET", "/v1/topics", b"", more=who.fields)
    return status, content


def http_2(place: Place, who: Person) -> object:
    """(status, content) over HTTP/2."""
    status, _, content = Http2Caller(place.world).ask("GET", "/v1/topics", b"", who.fields)
    return status, content


def mqtt(version: int) -> Callable[[Place, Person], object]:
    """(code, texts, user properties) of CONNACK."""

    def connect(place: Place, who: Person) -> object:
        client = MqttClient(place.world, "sensor", version)
        place.world.dial("mqtt", client)
        answer: Any = client.ask(Connect(version, "sensor", True, 0, None, who.name, who.password.encode(), NONE), Connack)
        return answer.code, answer.properties.texts, answer.properties.user

    return connect


@pytest.fixture(scope="module")
def place() -> Place:
    return Place()


PROTOCOLS = {
    "remoting": remoting, "gRPC": grpc, "HTTP/1.1": http_1, "HTTP/2": http_2, "MQTT 3.1.1": mqtt(4), "MQTT 5": mqtt(5)
}  # fmt: skip


@pytest.mark.parametrize("name", PROTOCOLS)
def test_an_unknown_user_is_told_what_a_wrong_password_is_told(place: Place, name: str) -> None:
    ask = PROTOCOLS[name]
    wrong = ask(place, WRONG)
    assert ask(place, UNKNOWN) == wrong
    assert ask(place, ROOT) != wrong, "the right password is told something else"
    assert "nosuch" not in str(ask(place, UNKNOWN))
