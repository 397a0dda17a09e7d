"""Every operation of every protocol: with the rights that it needs, without each of them, and without a name.

The requests are those of the protocols' own tables, so that a new one without a row fails here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pytest

from domain.access.access import SUB, AccessPolicy
from protocols.coap.message import message
from tests.simulation.matrix import coap, grpc, http, mqtt, page, remoting
from tests.simulation.matrix.operation import OPERATIONS, Operation
from tests.simulation.matrix.place import NOBODY, ROOT, TOPIC_NAME, Person, Place
from tests.tidy.source import ROOT as FOLDER


class Protocol(NamedTuple):
    """One way to ask.

    open         makes what asks
    requests     by name
    refused      what those are told who lack a right
    unnamed      what those are told who do not say who they are
    """

    open: Callable[[Place], Any]
    requests: Mapping[str, Any]
    refused: frozenset[str]
    unnamed: frozenset[str]


def flat(groups: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    """Requests by name."""
    return {name: request for group in groups.values() for name, request in group.items()}


def words(*found: str) -> frozenset[str]:
    """A set of words."""
    return frozenset(found)


HTTP = {f"{name} #{at}": request for name, group in http.REQUESTS.items() for at, request in enumerate(group)}
MQTT = flat(mqtt.REQUESTS)
COAP = flat(dict(enumerate(coap.ALL)))
PROTOCOLS = {
    "remoting": Protocol(remoting.Remoting, flat(remoting.REQUESTS), words("16"), words("16")),
    "gRPC": Protocol(grpc.Grpc, flat(grpc.REQUESTS), words("UNAUTHORIZED"), words("UNAUTHORIZED")),
    "MQTT 3.1.1": Protocol(lambda place: mqtt.Mqtt(place, 4), MQTT, words("0x80", "0x5", "closed"), words("0x4")),
    "MQTT 5": Protocol(lambda place: mqtt.Mqtt(place, 5), MQTT, words("0x87"), words("0x86")),
    "HTTP/1.1": Protocol(lambda place: http.Http(place, "1.1"), HTTP, words("403"), words("401")),
    "HTTP/2": Protocol(lambda place: http.Http(place, "2"), HTTP, words("403"), words("401")),
    "CoAP over UDP": Protocol(lambda place: coap.Coap(place, "UDP"), COAP, words("4.03"), words("4.01")),
    "CoAP over TCP": Protocol(lambda place: coap.Coap(place, "TCP"), COAP, words("4.03"), words("4.01")),
}
each_protocol = pytest.mark.parametrize("name", PROTOCOLS)


@cache
def place_of(name: str) -> tuple[Place, Any]:
    """The node that the tests of one protocol ask, and what asks it."""
    place = Place()
    return place, PROTOCOLS[name].open(place)


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """No node outlives the tests."""
    yield
    place_of.cache_clear()


def needing(request: Any) -> Operation:
    """The operation of a request."""
    return OPERATIONS[request.operation]


def test_every_request_that_is_answered_has_a_row() -> None:
    assert remoting.REQUESTS.keys() | remoting.OPEN == remoting.served()
    assert grpc.REQUESTS.keys() == grpc.served()
    assert mqtt.REQUESTS.keys() | mqtt.OPEN == mqtt.served()
    assert http.REQUESTS.keys() | set(http.OPEN) == http.served()
    assert all(http.REQUESTS.values())
    assert remoting.REQUESTS.keys() >= remoting.SPARK


@pytest.mark.parametrize("transport", ["UDP", "TCP"])
def test_every_method_of_coap_has_a_row(transport: str) -> None:
    """A server tells its methods by refusing others with 4.05, and its resources by the links."""
    assert coap.targets() == coap.TARGETS
    asks = coap.Coap(Place(), transport)
    offered = {code for code in coap.CODES if asks.probe(code, ROOT) != "4.05"}
    assert offered == coap.REQUESTS.keys()
    assert message.GET in offered
    for on, requests in coap.OF_TOPICS.items():
        offered = {code for code in coap.CODES if asks.probe(code, ROOT, on) != "4.05"}
        assert offered == {request.code for request in requests.values()}, on


def test_every_operation_is_offered_by_a_protocol() -> None:
    offered = {request.operation for protocol in PROTOCOLS.values() for request in protocol.requests.values()}
    assert offered == OPERATIONS.keys()


@each_protocol
def test_the_rights_of_the_row_are_enough(name: str) -> None:
    """The answer is that to the administrator, with each of the actions of which one is enough."""
    place, asks = place_of(name)
    protocol = PROTOCOLS[name]
    wrong = {}
    for what, request in protocol.requests.items():
        operation = needing(request)
        if operation.privileged:
            continue
        if getattr(request, "alone", False):
            place = Place()
            asks = protocol.open(place)
        for variant in range(max((len(need.actions) for need in operation.needs), default=1)):
            person = place.with_exactly(operation.needs, variant)
            place.furnish()
            wanted = asks.ask(request, ROOT)
            place.furnish()
            found = asks.ask(request, person)
            if found != wanted or found in protocol.refused | protocol.unnamed:
                wrong[what, variant] = (found, wanted)
        place.furnish()
        place, asks = place_of(name)
    assert wrong == {}


@each_protocol
def test_who_may_everything_else_is_refused(name: str) -> None:
    place, asks = place_of(name)
    protocol = PROTOCOLS[name]
    place.furnish()
    before = place.state()
    wrong: dict[object, object] = {}
    for what, request in protocol.requests.items():
        operation = needing(request)
        if operation.own:
            other = place.with_exactly(operation.needs)
            owner = place.with_exactly((*operation.needs, *OPERATIONS["send"].needs))
            found = asks.ask(request, other, owner)
            if operation.needs and found != http.UNKNOWN:
                wrong[what, "of another"] = found
            continue
        strangers = [place.with_all_but(need) for need in operation.needs]
        if operation.privileged:
            strangers = [place.with_exactly([need for each in OPERATIONS.values() for need in each.needs])]
        for need, person in zip(operation.needs or (None,), strangers, strict=False):
            found = asks.ask(request, person)
            if found not in protocol.refused:
                wrong[what, need] = found
    assert wrong == {}
    assert place.state() == before


@each_protocol
def test_who_does_not_say_who_it_is_is_refused_and_changes_nothing(name: str) -> None:
    place, asks = place_of(name)
    protocol = PROTOCOLS[name]
    strangers = {"nobody": NOBODY, "one with a wrong password": Person("root", "guess")}
    if "CoAP" in name:
        del strangers["one with a wrong password"]  # its sessions are refused before
    place.furnish()
    before = place.state()
    wrong: dict[object, object] = {}
    for what, request in protocol.requests.items():
        if request.operation == "read the description":
            assert asks.ask(request, NOBODY) == "done"
            continue
        for who, person in strangers.items():
            owner = place.with_exactly(needing(request).needs)
            found = asks.ask(request, person, owner)
            if found not in protocol.unnamed:
                wrong[what, who] = found
    assert wrong == {}
    assert place.state() == before


@pytest.mark.parametrize("transport", ["UDP", "TCP"])
@pytest.mark.parametrize("what", ["GET with Observe", "FETCH with Observe", "GET /ps/data/{id} with Observe"])
def test_an_observation_is_not_shared_with_an_address_that_may_not_observe(transport: str, what: str) -> None:
    """Observers that are the same user share a watch; their policies may differ by address."""
    place = Place()
    asks = coap.Coap(place, transport)
    who = place.person([AccessPolicy(f"Topic:{TOPIC_NAME}", (SUB,), sources=(asks.host,))])
    assert asks.ask(COAP[what], who) == "2.05"
    asks.host = "10.0.0.8"
    assert asks.ask(COAP[what], who) == "4.03"


def test_the_page_has_the_matrix() -> None:
    text = (FOLDER / "docs" / "access.md").read_text("utf-8")
    assert page.table() in text, "python -m tests.simulation.matrix.page"
