"""Authentication of calls: the age of a signature, and metadata that comes twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from domain.access.access import Credentials, Signature
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from protocols.grpc.access import Authenticator
from protocols.http2.head import Headers
from tests.protocols.grpc.stage import WALL_MS
from tests.protocols.http2.peer import PEER

NOW = datetime.fromtimestamp(WALL_MS // 1000, UTC)
BERLIN = timezone(timedelta(hours=2))
AGE_S = 600


class Anyone:
    """An authority that takes every signature."""

    wall_ms = WALL_MS

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        return Principal(credentials.user if isinstance(credentials, Signature) else "nobody", host)

    def authenticator(self, age_s: int) -> Authenticator:
        return Authenticator(self, PEER, age_s, lambda: self.wall_ms)  # type: ignore[arg-type]


def said(found: Authenticator, date: str, *more: tuple[bytes, bytes]) -> str:
    """What becomes of a signed call: its user, or why it is refused."""
    signature = b"MQv2-HMAC-SHA1 Credential=alice, SignedHeaders=x-mq-date-time, Signature=00"
    fields: Headers = [(b"te", b"trailers"), (b"x-mq-date-time", date.encode()), (b"authorization", signature), *more]
    answer = found.identify(dict(fields), fields)
    if isinstance(answer, Failure):
        assert answer.code is ErrorCode.NOT_AUTHENTICATED
        return answer.text
    return answer.user


def basic(at: datetime) -> str:
    """As the SDKs for Java, Go, Python, C#, Node and C++ write it."""
    return at.strftime("%Y%m%dT%H%M%SZ")


def rust(at: datetime) -> str:
    """As the SDK for Rust writes it: RFC 3339, with nine digits of a second."""
    return at.astimezone(BERLIN).strftime("%Y-%m-%dT%H:%M:%S.123456789+02:00")


@pytest.mark.parametrize("written", [basic, rust])
@pytest.mark.parametrize(
    ("late_s", "taken"), [(0, True), (AGE_S - 1, True), (1 - AGE_S, True), (AGE_S + 2, False), (-AGE_S - 2, False)]
)
def test_a_signature_counts_for_a_time(written: object, late_s: int, taken: bool) -> None:
    assert callable(written)
    answer = said(Anyone().authenticator(AGE_S), written(NOW - timedelta(seconds=late_s)))
    assert (answer == "alice") is taken
    assert taken or "is more than 600 s from the node's clock" in answer


def test_a_signature_that_was_taken_grows_old_on_its_connection() -> None:
    authority = Anyone()
    found = authority.authenticator(AGE_S)
    assert said(found, basic(NOW)) == "alice"
    authority.wall_ms += (AGE_S + 2) * 1000
    assert "node's clock" in said(found, basic(NOW))


@pytest.mark.parametrize(
    "date", ["x", "20261301T000000Z", "99999999T999999Z", "0001-01-01T00:00:00+14:00", "\uff19", "1790000000123"]
)
def test_what_is_no_time_is_too_old(date: str) -> None:
    assert "node's clock" in said(Anyone().authenticator(AGE_S), date)


@pytest.mark.parametrize("date", ["x", "20010101T000000Z", basic(NOW)])
def test_any_age_is_taken_unless_one_is_set(date: str) -> None:
    """Apache's proxy compares it with nothing, and SDKs write local time."""
    assert said(Anyone().authenticator(0), date) == "alice"


def test_credentials_that_come_twice_name_one_user() -> None:
    """The SDK for Go has the fields of each attempt in a call that it repeats; the last ones count."""
    found = Anyone().authenticator(0)
    again = b"MQv2-HMAC-SHA1 Credential=alice//Rocketmq, SignedHeaders=x-mq-date-time, Signature=01"
    assert said(found, "x", (b"authorization", again), (b"x-mq-date-time", b"y")) == "alice"
    assert said(found, "x", (b"x-mq-namespace", b"a"), (b"x-mq-namespace", b"b")) == "alice"
    for other in (again.replace(b"alice", b"eve"), again.replace(b"alice", b"alice2"), b"Bearer x", b""):
        for fields in ((b"authorization", other), (b"te", b"trailers")), ((b"authorization", again), (b"authorization", other)):
            assert "names two users" in said(found, "x", *fields)
