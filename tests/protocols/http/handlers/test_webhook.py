"""WebHooks that come in: the handshake of senders, consent by callback, and TLS (CloudEvents HTTP WebHook 1.0.2)."""

from __future__ import annotations

from typing import Any

import pytest

from domain.access.principal import GATEWAY
from domain.admin.subscription import GrantConsent
from domain.event import Done
from protocols.adapter import Peer
from tests.protocols.http.stage import EVENT_FIELDS, PEER, TLS_PEER, Client, OnePassword
from tests.protocols.taken import only

ASKED = {"WebHook-Request-Origin": "eventemitter.example.com", "WebHook-Request-Rate": "120"}
CALLBACK = "https://hooks.example.com/confirm?id=12345&key=c2VjcmV0"
LOCAL = [PEER._replace(host=host) for host in ("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1")]
FAR = [PEER._replace(host=host) for host in ("10.0.0.9", "::ffff:10.0.0.9", "2001:db8::1", "", "localhost")]


def test_the_webhook_handshake() -> None:
    """Section 4.2: consent names the origin, and the rate."""
    client = Client(peer=TLS_PEER)
    answer = client.ask("OPTIONS", "/ce/orders", ASKED)
    assert answer.status == 204
    assert answer.field("allow") == "OPTIONS, POST"
    assert answer.field("webhook-allowed-origin") == "eventemitter.example.com"
    assert answer.field("webhook-allowed-rate") == "*"
    unrated = client.ask("OPTIONS", "/ce/orders", {"WebHook-Request-Origin": "eventemitter.example.com"})
    assert unrated.field("webhook-allowed-rate") == "*"
    plain = client.ask("OPTIONS", "/ce/orders")
    assert plain.field("webhook-allowed-origin") is plain.field("webhook-allowed-rate") is None


def test_consent_is_configured() -> None:
    client = Client(peer=TLS_PEER, webhook_origins=["a.example"], webhook_rate=60)
    asked = {"WebHook-Request-Origin": "a.example", "WebHook-Request-Rate": "120"}
    assert client.ask("OPTIONS", "/ce/orders", asked).field("webhook-allowed-rate") == "60"
    other = client.ask("OPTIONS", "/ce/orders", {**asked, "WebHook-Request-Origin": "b.example"})
    assert other.status == 204
    assert other.field("webhook-allowed-origin") is None


@pytest.mark.parametrize("peer", [*LOCAL, TLS_PEER])
def test_senders_inside_tls_and_on_this_machine_are_served(peer: Peer) -> None:
    fields = {**EVENT_FIELDS, "WebHook-Request-Origin": "a.example"}
    assert Client(peer=peer).ask("POST", "/ce/orders?access_token=x", fields, b"x").status == 204
    assert Client(peer=peer).ask("OPTIONS", "/ce/orders", ASKED).field("webhook-allowed-origin")


@pytest.mark.parametrize("peer", FAR)
def test_deliveries_outside_tls_are_refused_and_handshakes_get_no_consent(peer: Peer) -> None:
    """Section 2.1: HTTP-over-TLS must be used. Events that are no deliveries are taken as the port takes them."""
    for target, fields in (
        ("/ce/orders", {**EVENT_FIELDS, "WebHook-Request-Origin": "a.example"}),
        ("/ce/orders?access_token=x", EVENT_FIELDS),
    ):
        client = Client(peer=peer)
        answer = client.ask("POST", target, fields, b"x")
        assert (answer.status, answer.json()["code"]) == (403, "tls-required")
        assert "webhook_tls" in answer.json()["detail"]
        assert client.commands == []
        assert Client(peer=peer, webhook_tls=False).ask("POST", target, fields, b"x").status == 204
    assert Client(peer=peer).ask("POST", "/ce/orders", EVENT_FIELDS, b"x").status == 204
    asked = Client(peer=peer).ask("OPTIONS", "/ce/orders", ASKED)
    assert (asked.status, asked.field("allow"), asked.field("webhook-allowed-origin")) == (204, "OPTIONS, POST", None)
    assert Client(peer=peer, webhook_tls=False).ask("OPTIONS", "/ce/orders", ASKED).field("webhook-allowed-origin")


class Told(list[tuple[str, str, int]]):
    """Consents that were to be sent."""

    def grant(self, url: str, origin: str, rate: int) -> None:
        """As `Setting.grant`."""
        self.append((url, origin, rate))


def test_consent_goes_to_the_callback_instead_of_the_answer() -> None:
    """Section 4.2: who grants permission by callback withholds the fields of the response."""
    told = Told()
    client = Client(peer=TLS_PEER, grant=told.grant, webhook_callbacks=["hooks.example.com"], webhook_rate=60)
    answer = client.ask("OPTIONS", "/ce/orders", {**ASKED, "WebHook-Request-Callback": CALLBACK})
    assert (answer.status, answer.field("allow")) == (204, "OPTIONS, POST")
    assert answer.field("webhook-allowed-origin") is answer.field("webhook-allowed-rate") is None
    assert told == [(CALLBACK, "eventemitter.example.com", 60)]


@pytest.mark.parametrize(
    "callback",
    [
        "https://other.example.com/confirm",
        "https://hooks.example.com.evil.example/",
        "ftp://hooks.example.com/",
        "hooks.example.com",
        "https://u:p@hooks.example.com/",
        "https://evil.example/hooks.example.com",
        "https://hooks.example.com\\@evil.example/",
        "https:///",
    ],
)
def test_a_callback_elsewhere_is_not_called_and_the_answer_has_the_consent(callback: str) -> None:
    told = Told()
    client = Client(peer=TLS_PEER, grant=told.grant, webhook_callbacks=["hooks.example.com"])
    answer = client.ask("OPTIONS", "/ce/orders", {**ASKED, "WebHook-Request-Callback": callback})
    assert answer.field("webhook-allowed-origin") == "eventemitter.example.com"
    assert told == []


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(("value", "rate"), [(None, 0), ("*", 0), ("120", 120), ("0", 1), ("-1", 0), ("9" * 20, 0)])
def test_a_sink_consents_with_the_key_of_its_url(method: str, value: str | None, rate: int) -> None:
    """Section 4.1.3: GET for a person, POST for a program. The key is the credential, also where access is controlled."""
    fields = {} if value is None else {"WebHook-Allowed-Rate": value}
    client = Client(lambda command: Done(command.ticket), authority=OnePassword())  # type: ignore[attr-defined]
    answer = client.ask(method, "/subscriptions/s1:consent?key=k1", fields)
    assert (answer.status, answer.field("cache-control")) == (204, "private, no-store")
    command = only(client.commands, GrantConsent)
    assert (command.id, command.key, command.rate, command.principal) == ("s1", "k1", rate, GATEWAY)


def test_nobody_is_called_back_unless_a_host_is_named_and_the_origin_may_deliver() -> None:
    asked = {**ASKED, "WebHook-Request-Callback": CALLBACK}
    cases: list[tuple[Peer, dict[str, Any]]] = [
        (TLS_PEER, {}),
        (TLS_PEER, {"webhook_callbacks": ["hooks.example.com"], "webhook_origins": ["b.example"]}),
        (PEER, {"webhook_callbacks": ["hooks.example.com"]}),
    ]
    for peer, options in cases:
        told = Told()
        Client(peer=peer, grant=told.grant, **options).ask("OPTIONS", "/ce/orders", asked)
        assert told == []
