"""Guessed passwords over each protocol of a node: the tenth failure makes the next login wait, and who waits is told so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protocols.mqtt import property as packets
from protocols.remoting import codes
from tests.simulation.http_caller import HttpCaller
from tests.simulation.matrix import grpc, http, mqtt, remoting
from tests.simulation.matrix.place import ROOT, Person, Place

GUESS = Person("root", "guess")
WAY: dict[str, tuple[Callable[[Place], Any], Any, str, str]] = {
    "remoting": (remoting.Remoting, next(iter(remoting.REQUESTS[codes.GET_ALL_TOPICS].values())), "16", "215"),
    "gRPC": (grpc.Grpc, next(iter(grpc.REQUESTS["QueryRoute"].values())), "UNAUTHORIZED", "TOO_MANY_REQUESTS"),
    "MQTT 3.1.1": (lambda place: mqtt.Mqtt(place, 4), mqtt.REQUESTS[packets.CONNECT]["CONNECT"], "0x4", "0x3"),
    "MQTT 5": (lambda place: mqtt.Mqtt(place, 5), mqtt.REQUESTS[packets.CONNECT]["CONNECT"], "0x86", "0x9f"),
    "HTTP/1.1": (lambda place: http.Http(place, "1.1"), http.REQUESTS["GET /v1/topics"][0], "401", "429"),
    "HTTP/2": (lambda place: http.Http(place, "2"), http.REQUESTS["GET /v1/topics"][0], "401", "429"),
    "WebSocket": (
        lambda place: http.Http(place, "1.1"),
        next(each for each in http.REQUESTS["GET /v1/topics/{path…}:consume"] if each.socket), "401", "429",
    ),
}  # fmt: skip


def place(**limits: int) -> Place:
    return Place({"failed_logins": 9, **limits})


@pytest.mark.parametrize("name", WAY)
def test_the_tenth_wrong_password_makes_the_next_login_wait(name: str) -> None:
    make, request, refused, slowed = WAY[name]
    node = place()
    asks = make(node)
    told = [asks.ask(request, GUESS) for _ in range(12)]
    assert told == [refused] * 10 + [slowed] * 2
    assert asks.ask(request, ROOT) == slowed, "a right one is not looked at either: nobody learns by that"
    assert node.person([]).name
    node.world.clock.run_for(1_000)
    assert asks.ask(request, ROOT) in {"done", "OK"}, "a good login after it is served"
    assert asks.ask(request, GUESS) == refused, "and forgives the mistakes of its user"


def test_protocols_count_together() -> None:
    node = place()
    told = []
    for name in ("HTTP/1.1", "MQTT 5", "remoting", "gRPC", "HTTP/2"):
        make, request, _, _ = WAY[name]
        told += [make(node).ask(request, GUESS) for _ in range(2)]
    assert told == ["401", "401", "0x86", "0x86", "16", "16", "UNAUTHORIZED", "UNAUTHORIZED", "401", "401"]
    assert [make(node).ask(request, GUESS) for make, request, _, _ in WAY.values()] == [each[3] for each in WAY.values()]


def test_who_has_logged_in_before_is_served_while_others_of_its_host_guess() -> None:
    node = place()
    make, request, _, slowed = WAY["HTTP/1.1"]
    asks = make(node)
    neighbour = node.person(())
    assert asks.ask(request, neighbour) == "403", "it is known"
    for _ in range(100):
        asks.ask(request, GUESS)
    assert asks.ask(request, neighbour) == "403"
    assert asks.ask(request, Person("nobody-here", "guess")) == slowed


def test_the_answer_of_http_says_when_to_come_back() -> None:
    node = place(lockout_failures=10, lockout_s=120)
    caller = HttpCaller(node.world)
    for _ in range(10):
        caller.ask("GET", "/v1/topics", more=GUESS.fields)
    status, fields, body = caller.ask("GET", "/v1/topics", more=GUESS.fields)
    assert status == 429
    assert fields["retry-after"] == "120"
    assert b"have failed: come back in 120 s" in body
    assert "www-authenticate" not in fields
    token = {"authorization": "Bearer nothing.of.ours"}
    assert caller.ask("GET", "/v1/topics", more=token)[0] == 429, "another way from the same host: the host waits, too"
