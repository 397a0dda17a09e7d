"""Sinks in documents of subscriptions: an address that deliveries may not go to is refused with the setting that allows it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from domain.admin.subscription import PutSubscription
from domain.command import Command
from domain.event import Done, Event
from domain.subscription.sink import Network, networks
from protocols.http.adapter import HttpAdapter
from protocols.http.settings import HttpSettings
from tests.domain.subscription.test_sink import INSIDE, LOOPBACK, SPELLINGS
from tests.protocols.http.stage import Answer, Client, setting

CALLS = (("POST", "/subscriptions"), ("PUT", "/subscriptions/0e4ac1f2eb737d2acd"))


def react(command: Command) -> Event | None:
    return Done(command.ticket) if isinstance(command, PutSubscription) else None


def client(allow: Sequence[Network] | None = ()) -> Client:
    """A client of a process whose setting `[webhook] allow` is `allow`; None: it delivers nothing."""
    return Client(react, HttpAdapter(dataclasses.replace(setting(), sinks=allow), HttpSettings()))


def ask(made: Client, call: tuple[str, str], sink: str, **more: Any) -> Answer:
    document = {"source": "orders", "sink": sink, "protocol": "HTTP", **more}
    return made.ask(*call, {"Content-Type": "application/json"}, json.dumps(document).encode())


def written(address: str) -> str:
    """An address as the host of a URL."""
    return f"[{address}]" if ":" in address else address


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_addresses_that_are_not_public_are_refused_before_anything_is_stored(scheme: str, call: tuple[str, str]) -> None:
    made = client()
    for address in (*LOOPBACK, *INSIDE):
        if "%" in address:
            continue  # no host of a URL: see the spellings
        answer = ask(made, call, f"{scheme}://{written(address)}:9000/hook")
        found = answer.json()
        assert (answer.status, found["member"]) == (400, "sink"), address
        assert "[webhook] allow" in found["detail"], address
    assert made.commands == []


@pytest.mark.parametrize("call", CALLS)
def test_names_of_loopback_are_refused_without_a_look_up(call: tuple[str, str]) -> None:
    made = client()
    for name in ("localhost", "LOCALHOST", "localhost.", "hooks.localhost", "a.b.localhost."):
        answer = ask(made, call, f"https://{name}/hook")
        assert answer.status == 400, name
        assert '[webhook] allow = ["127.0.0.1/32"]' in answer.json()["detail"], name
    assert made.commands == []
    assert ask(made, call, "https://localhost.example.com/").status == 204


@pytest.mark.parametrize("call", CALLS)
def test_forty_other_spellings_are_refused(call: tuple[str, str]) -> None:
    made = client(networks(["0.0.0.0/0", "::/0"]))
    for url in SPELLINGS:
        answer = ask(made, call, url)
        assert (answer.status, answer.json()["member"]) == (400, "sink"), url
    assert made.commands == []


def test_the_setting_that_is_named_allows_it() -> None:
    refused = ask(client(), CALLS[0], "http://[::ffff:10.1.2.3]/").json()["detail"]
    assert '[webhook] allow = ["10.1.2.3/32"]' in refused
    assert ask(client(networks(["10.1.2.3/32"])), CALLS[0], "http://[::ffff:10.1.2.3]/").status == 204
    assert ask(client(networks(["10.1.2.3/32"])), CALLS[0], "http://10.1.2.4/").status == 400
    assert ask(client(networks(["::1/128"])), CALLS[0], "http://localhost/").status == 204, "one of its addresses is allowed"


def test_public_addresses_and_names_are_taken_and_http_needs_an_allowed_network() -> None:
    made = client()
    for sink in ("https://8.8.8.8/", "https://[2606:4700:4700::1111]/", "https://example.com/"):
        assert ask(made, CALLS[0], sink).status == 204, sink
    for sink in ("http://8.8.8.8/", "http://example.com/"):
        assert "http is for allowed networks only" in ask(made, CALLS[0], sink).json()["detail"], sink
    assert ask(client(networks(["10.1.2.3/32"])), CALLS[0], "http://example.com/").status == 204, "its address will show"


def test_a_token_endpoint_is_judged_like_a_sink() -> None:
    credential = {"type": "oauth2", "token_url": "https://169.254.169.254/t", "client_id": "a", "client_secret": "hush"}
    answer = ask(client(), CALLS[0], "https://example.com/", sinkcredential=credential)
    assert (answer.status, answer.json()["member"]) == (400, "sinkcredential.token_url")
    assert "hush" not in answer.body.decode()
    answer = ask(client(), CALLS[0], "https://example.com/", sinkcredential={**credential, "token_url": "http://example.com/t"})
    assert (answer.status, answer.json()["member"]) == (400, "sinkcredential.token_url")


def test_a_process_that_delivers_nothing_leaves_the_judgement_to_those_that_do() -> None:
    assert ask(client(None), CALLS[0], "http://10.0.0.1/").status == 204
