"""WebHooks that come in (CloudEvents HTTP WebHook 1.0.2): the handshake of senders, and where TLS is needed."""

from __future__ import annotations

import ipaddress
from typing import Final, final

from domain.subscription.filters import SubscriptionError
from domain.subscription.sink import sink
from protocols.adapter import Peer
from protocols.http.handler import Handler, HandlerContext, Outcome
from protocols.http.problem import RefusalError, problem
from protocols.http.request import Request
from protocols.http.response import Fields, Response

ORIGIN: Final = b"webhook-request-origin"


def is_confidential(peer: Peer) -> bool:
    """True inside TLS, and for a client on the same machine."""
    if peer.tls:
        return True
    try:
        address = ipaddress.ip_address(peer.host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def is_delivery(request: Request, token: str) -> bool:
    """True for a delivery of a WebHook: it has WebHook-Request-Origin, or its token in the query."""
    return token != "" or request.has(ORIGIN)


def check_delivery(request: Request, token: str, context: HandlerContext) -> None:
    """Raises RefusalError with 403 for a delivery outside TLS, which WebHook 2.1 forbids, unless `webhook_tls` is off.

    Other events are not judged: where TLS is needed for them is a matter of the listener.
    """
    if context.webhook_tls and is_delivery(request, token) and not is_confidential(request.peer):
        detail = "deliveries of WebHooks use TLS; for networks that need none, and behind a proxy: [http] webhook_tls = false"
        raise RefusalError(problem(403, "tls-required", detail))


@final
class WebhookHandshake(Handler):
    """OPTIONS: the handshake of WebHook senders (section 4), and Allow.

    Consent is in the answer; or, when the sender names a callback whose host `webhook_callbacks` has, it is sent there, and the
    answer has none (4.2).
    """

    def start(self, request: Request, ticket: object) -> Outcome:
        """204 with Allow; with the WebHook fields when `webhook_origins` has the origin."""
        return None, Response(204, self.options(request) + self._consent(request))

    def _consent(self, request: Request) -> Fields:
        asked = {name: value for name, value in request.fields if name[:8] == b"webhook-"}
        origin = asked.get(ORIGIN, b"")
        context = self._match.context
        allowed = context.webhook_origins
        if not origin or not ("*" in allowed or origin.decode("latin-1") in allowed):
            return []
        if context.webhook_tls and not is_confidential(request.peer):
            return []
        callback = asked.get(b"webhook-request-callback", b"").decode("latin-1")
        if callback and _host(callback) in context.webhook_callbacks:
            context.grant(callback, origin.decode("latin-1"), context.webhook_rate)
            return []
        rate = b"%d" % context.webhook_rate if context.webhook_rate else b"*"
        return [(b"webhook-allowed-origin", origin), (b"webhook-allowed-rate", rate)]


def _host(url: str) -> str:
    """The host of a callback URL, "" when it is not one that a request may go to."""
    try:
        return sink(url).host
    except SubscriptionError:
        return ""
