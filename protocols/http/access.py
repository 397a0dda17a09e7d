"""Authentication by the Authorization field (RFC 9110, 11.6.2; Basic: RFC 7617, Bearer: RFC 6750), else by the certificate."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Final

from domain.access.access import Authority, BearerToken, Credentials, Password, SlowedLogin, no_credentials
from domain.access.principal import Principal
from domain.errors import Failure
from protocols.http.problem import RefusalError, of_failure, problem
from protocols.http.request import Request

RETRY_AFTER: Final = b"retry-after"


def identify(authority: Authority, request: Request, token: str = "") -> Principal:
    """The principal of a request. Raises RefusalError: 401 with WWW-Authenticate, 429 with Retry-After for a login that was not
    looked at, 400 for a malformed field.

    `token` is that of the query (RFC 6750, 2.3), where it may be: a request without Authorization is judged by it.
    """
    credentials = _credentials(request)
    if credentials is None and token:
        credentials = BearerToken(token)
    found = authority.authenticate(credentials, request.peer.host, request.peer.principal)
    if isinstance(found, Failure):
        if credentials is None and not request.peer.principal:
            found = no_credentials("http")
        response = of_failure(found)
        if isinstance(found, SlowedLogin):
            kept = [field for field in response.fields if field[0] != RETRY_AFTER]
            response.fields = [*kept, (RETRY_AFTER, b"%d" % found.retry_s)]
        raise RefusalError(response)
    return found


def _credentials(request: Request) -> Credentials | None:
    given = request.field(b"authorization")
    if not given:
        return None
    scheme, _, value = given.partition(b" ")
    if scheme.lower() == b"bearer":
        return BearerToken(value.strip().decode("latin-1"))
    if scheme.lower() == b"basic":
        try:
            user, colon, secret = b64decode(value.strip(), validate=True).partition(b":")
        except binascii.Error:
            colon = b""
        if colon:
            return Password(user.decode("utf-8", "replace"), secret)
    raise RefusalError(problem(401, "not-authenticated", "Authorization is neither Basic nor Bearer"))
