"""Requests from web pages: names of this node, pages that may send, and CORS (Fetch standard; RFC 9110, 7.4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from protocols.hosts import Hosts, origin_host
from protocols.http.problem import RefusalError, problem
from protocols.http.request import Request
from protocols.http.response import Fields

PREFLIGHT_S: Final = b"600"
_SAFE: Final = frozenset((b"GET", b"HEAD", b"OPTIONS"))
_FORM_TYPES: Final = frozenset((b"", b"application/x-www-form-urlencoded", b"multipart/form-data", b"text/plain"))
_BROWSER: Final = b"Mozilla/"


@final
class Site:
    """Hosts and origins that are served.

    _origins   origins of other sites whose pages may send and read; `*`: every one
    _webhooks  senders of WebHook deliveries, which name themselves in Origin without a scheme; `*`: every one
    """

    def __init__(self, hosts: Iterable[str], advertised: str, origins: Iterable[str], webhooks: Iterable[str]) -> None:
        self._hosts = Hosts(hosts, advertised)
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._webhooks = {sender.lower() for sender in webhooks}

    def judge(self, request: Request) -> bytes:
        """The origin of another site that may read the response; b"" when there is none.

        Raises RefusalError: 421 for a name that is not this node's, 403 for a request that a page of another site sends.
        """
        host = request.host
        if host and not self._hosts.knows(host):
            detail = "this is no name of this node: add it to [http] hosts, or advertise it"
            raise RefusalError(problem(421, "host-unknown", detail))
        origin = request.field(b"origin")
        if origin:
            return self._cross_origin(request, origin, host)
        if request.method not in _SAFE:
            self._check_browser(request)
        return b""

    def check_reader(self, request: Request) -> None:
        """Raise RefusalError, 403, for a request of a page that may not read the answer: streams are not sent to it at all.

        A WebSocket is not kept from it by the browser.
        """
        origin = request.field(b"origin").decode("latin-1").lower()
        same = origin_host(origin) == request.host.decode("latin-1").lower() != ""
        if origin and not same and origin not in self._origins and "*" not in self._origins:
            raise _closed_to("read")

    def _cross_origin(self, request: Request, origin: bytes, host: bytes) -> bytes:
        text = origin.decode("latin-1").lower()
        if origin_host(text) == host.decode("latin-1").lower() != "":
            return b""
        if text in self._origins or "*" in self._origins:
            return origin
        if "://" not in text and text != "null" and (text in self._webhooks or "*" in self._webhooks):
            return b""
        if request.method in _SAFE:
            return b""
        raise _closed_to()

    def _check_browser(self, request: Request) -> None:
        """Refuse a request without Origin that a page of another site can have sent."""
        site = request.field(b"sec-fetch-site")
        if site:
            if site not in (b"same-origin", b"none"):
                raise _closed_to()
            return
        if request.field(b"user-agent").startswith(_BROWSER):
            # Old browsers: forms can send these media types without asking.
            media_type = request.field(b"content-type").partition(b";")[0].strip().lower()
            if media_type in _FORM_TYPES:
                raise _closed_to()

    def preflight(self, request: Request, methods: bytes) -> Fields:
        """The fields that answer a preflight request of an allowed origin; none for other requests."""
        if not request.has(b"access-control-request-method") or not self.judge(request):
            return []
        fields = [(b"access-control-allow-methods", methods), (b"access-control-max-age", PREFLIGHT_S)]
        asked = request.field(b"access-control-request-headers")
        return [*fields, (b"access-control-allow-headers", asked)] if asked else fields


def readable_by(origin: bytes) -> Fields:
    """The fields with which a page of `origin` may read a response."""
    return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", b"*"), (b"vary", b"origin")]


def _closed_to(what: str = "send") -> RefusalError:
    return RefusalError(problem(403, "origin-refused", f"pages of this origin may not {what}: add it to [http] origins"))
