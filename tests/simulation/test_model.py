"""One message in every protocol: in by A, out by B, in again by A is the identity on what both can carry (docs/model.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.message import property as properties
from domain.message.record import Record
from tests.simulation.carried import table
from tests.simulation.speakers import DELIVERY, EVENT, EXPIRY, LATEST, Said, Speaker, path_of, speakers
from tests.simulation.world import World
from tests.stored_state import value_of

CARRIED = table()
EVENTS = ("CloudEvents, HTTP", "CloudEvents, MQTT 5")
"""Protocols in which every message is an event."""
READS_EVENTS = "CloudEvents, HTTP"
"""The protocol whose reader gets no other messages."""
NOT_OF_EVENTS = ("keys", "tag")
"""What an event has as its id and type."""
SLACK_MS = 2_500
"""Expiry is in seconds in some protocols."""

texts = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp")), min_size=1, max_size=12).filter(
    str.strip
)
words = texts.map(lambda text: "".join(text.split())).filter(bool)
names = st.from_regex(r"[A-Z][A-Za-z0-9é_-]{0,10}", fullmatch=True).filter(
    lambda name: not properties.is_reserved(name) and not name.startswith("CE_")
)
bodies = {
    "application/json": st.sampled_from([b'{"a":[1,2]}', b'"x"', b"7"]),
    "text/plain; charset=utf-8": texts.map(str.encode),
    "application/octet-stream": st.binary(min_size=1, max_size=40),
    "application/cbor": st.binary(min_size=1, max_size=40),
}
hexadecimal = st.text("0123456789abcdef", min_size=32, max_size=32)
traces = st.tuples(hexadecimal.map(lambda text: f"00-{text}-{text[:16]}-01"), st.sampled_from(["", "a=b", "x=1,y=2"]))
levels = st.lists(st.from_regex(r"[A-Za-z0-9é_-]{1,8}", fullmatch=True), min_size=1, max_size=3)


@st.composite
def events(draw: st.DrawFn) -> dict[str, str]:
    out = {"specversion": "1.0", "id": draw(texts), "source": draw(st.sampled_from(["/s", "urn:a:b"])), "type": draw(texts)}
    return out | draw(
        st.fixed_dictionaries({}, optional={"subject": texts, "comexample": texts, "time": st.just("2026-01-02T03:04:05Z")})
    )


@st.composite
def messages(draw: st.DrawFn, event: bool) -> tuple[bytes, dict[str, Any]]:
    """Body and fields; times are milliseconds from now."""
    kind = draw(st.sampled_from(list(bodies)))
    optional: dict[str, st.SearchStrategy[Any]] = {
        "keys": st.lists(words, min_size=1, max_size=3, unique=True).map(" ".join),
        "tag": texts.map(str.strip).filter(lambda tag: "|" not in tag),
        "message group": texts.map(str.strip),
        "expiry": st.integers(30, 3_600).map(lambda seconds: seconds * 1_000),
        "delivery time": st.integers(200, 800),
        "trace context": traces,
        "user properties": st.dictionaries(names, texts, min_size=1, max_size=3),
        "path below the topic": levels.map("/".join),
        LATEST: st.just(True),
    }
    fields = draw(st.fixed_dictionaries({"content type": st.just(kind)}, optional=optional))
    if event:
        fields = {name: value for name, value in fields.items() if name not in NOT_OF_EVENTS}
        fields[EVENT] = draw(events())
    return draw(bodies[kind]), fields


@pytest.fixture(scope="module")
def stage(request: pytest.FixtureRequest, distance: None) -> tuple[World, dict[str, Speaker]]:
    """A node of its own for each reader, so that the reader gets the messages of this test only."""
    world = World.started(list(CARRIED).index(request.param))
    world.clock.run_for(200)
    return world, speakers(world)


@pytest.mark.parametrize("stage", ["HTTP"], indirect=True)
def test_the_table_has_a_row_for_each_field_and_a_client_for_each_protocol(stage: tuple[World, dict[str, Speaker]]) -> None:
    _, clients = stage
    assert list(clients) == list(CARRIED)
    rows = {
        "body", "keys", "tag", "message group", "content type", "expiry", "delivery time", "trace context", "user properties",
        "path below the topic", LATEST, EVENT,
    }  # fmt: skip
    assert all(set(fields) == rows for fields in CARRIED.values())


@pytest.mark.parametrize("sender", CARRIED)
@pytest.mark.parametrize(("stage", "reader"), [(name, name) for name in CARRIED], indirect=["stage"], ids=list(CARRIED))
@settings(max_examples=3, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_both_can_carry_comes_back(
    stage: tuple[World, dict[str, Speaker]], sender: str, reader: str, data: st.DataObject
) -> None:
    world, clients = stage
    event = reader == READS_EVENTS or sender in EVENTS or (CARRIED[sender][EVENT][0] and data.draw(st.booleans()))
    if event and not CARRIED[sender][EVENT][0]:
        return  # the reader gets events only, and the sender has none
    body, fields = data.draw(messages(event))
    now_ms = world.clock.wall_ms()
    sent = {name: now_ms + value if name in (EXPIRY, DELIVERY) else value for name, value in fields.items()}
    said = Said(body, {name: value for name, value in sent.items() if CARRIED[sender][name][0]})
    common = sorted(name for name in said.fields if CARRIED[reader][name][1])
    for _ in range(2):
        clients[sender].send(said)
        world.clock.run_for(1_500)
        (heard,) = clients[reader].heard()
        assert heard.body == said.body
        assert world.parts is not None
        value = value_of(world.parts.store.state, "latest", path_of(said).encode())
        if said.get(LATEST):
            assert value is not None
            assert Record(value).body == said.body or event
        for name in common:
            if name == EXPIRY or (name == DELIVERY and sender == "CoAP"):
                assert abs(heard.get(name) - said.get(name)) <= SLACK_MS, name
            else:
                assert heard.get(name) == said.get(name), name
        # In again: what the reader got, in the words of the sender.
        said = Said(heard.body, {**said.fields, **{name: heard.get(name) for name in common}})
        if sender == "CoAP" and DELIVERY in common:
            # It is over by now, and CoAP has no instants.
            common.remove(DELIVERY)
            del said.fields[DELIVERY]
