"""Times of tokens: RFC 7519, sections 4.1.4 and 4.1.5. The wall clock of the node is a parameter."""

from __future__ import annotations

import base64
import hmac

import jwt
import pytest

from domain.access.access import BearerToken, Password
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from gateway.access.authority import Access
from gateway.access.records import AccessRecords
from gateway.access.token import LEEWAY_S
from tests.gateway.access.memory import access_config
from tests.stored_state import memory_state

HOST = "10.0.0.1"
SECRET = "a secret of thirty-two bytes or so"
NOW_S = 1_800_000_000
REQUIRED: dict[str, object] = {"jwt_expiry_required": True}


def authority(table: dict[str, object] | None = None, now_s: int = NOW_S) -> Access:
    config = access_config({"jwt_secret": SECRET, **(table or {})})
    return Access(AccessRecords(memory_state(), ()), config, lambda: now_s * 1000)


def signed(claims: str) -> str:
    """A token of HS256 whose claims are this text, which need not be JSON."""
    parts = [base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in ('{"alg":"HS256","typ":"JWT"}', claims)]
    content = b".".join(parts)
    mac = base64.urlsafe_b64encode(hmac.digest(SECRET.encode(), content, "sha256")).rstrip(b"=")
    return (content + b"." + mac).decode()


def judged(text: str, table: dict[str, object] | None = None, now_s: int = NOW_S) -> Principal | Failure:
    """What the token is, as Bearer and as a password alike."""
    access = authority(table, now_s)
    bearer, password = access.authenticate(BearerToken(text), HOST), access.authenticate(Password("", text.encode()), HOST)
    assert bearer == password or isinstance(bearer, Principal)
    return bearer


def refusal(text: str, table: dict[str, object] | None = None, now_s: int = NOW_S) -> str:
    """Why the token is refused; "": it is accepted."""
    found = judged(text, table, now_s)
    if isinstance(found, Principal):
        return ""
    assert found.code is ErrorCode.NOT_AUTHENTICATED
    return found.text


@pytest.mark.parametrize("instant", ["0", "-0", "0.0", "-1", "-1e308", "1", str(NOW_S - LEEWAY_S), f"-{10**400}"])
def test_a_token_whose_expiry_has_come_is_refused_in_whatever_year(instant: str) -> None:
    """RFC 7519, 4.1.4: on or after the time of `exp` the token must not be accepted; 0 is in 1970."""
    assert refusal(signed(f'{{"sub":"carol","exp":{instant}}}')) == "the token has expired"
    assert refusal(signed(f'{{"sub":"carol","exp":{instant}}}'), REQUIRED) == "the token has expired"


def test_an_expiry_of_0_is_an_expiry_at_the_beginning_of_1970_too() -> None:
    text = signed('{"sub":"carol","exp":0}')
    assert refusal(text, now_s=LEEWAY_S - 1) == ""
    assert refusal(text, now_s=LEEWAY_S) == "the token has expired"


@pytest.mark.parametrize("claim", ["exp", "nbf"])
@pytest.mark.parametrize(
    "instant",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "null", "true", "false", '"1"', "[]", "{}", '"NaN"'],
)
def test_a_time_that_is_no_number_is_refused_with_words(claim: str, instant: str) -> None:
    """RFC 7519, 2: a NumericDate is a JSON numeric value; RFC 8259, 6: Infinity and NaN are none."""
    for table in (None, REQUIRED):
        words = refusal(signed(f'{{"sub":"carol","exp":{NOW_S + 60},"{claim}":{instant}}}'), table)
        assert words == "the token's times are no numbers"


@pytest.mark.parametrize("instant", [str(NOW_S - LEEWAY_S + 1), f"{NOW_S}.5", "1e12", "1e306", "1e308", str(10**400)])
def test_an_expiry_to_come_counts_however_far_it_is(instant: str) -> None:
    found = judged(signed(f'{{"sub":"carol","exp":{instant}}}'), REQUIRED)
    assert isinstance(found, Principal)
    assert NOW_S * 1000 < found.expires_ms < 1 << 53


def test_a_token_counts_from_its_beginning_on() -> None:
    """RFC 7519, 4.1.5: before the time of `nbf` the token must not be accepted."""
    for begin, words in (
        (str(NOW_S + LEEWAY_S), ""),
        (str(NOW_S + LEEWAY_S + 1), "the token is not valid yet"),
        ("1e308", "the token is not valid yet"),
        (str(10**400), "the token is not valid yet"),
        ("-1e308", ""),
        ("0", ""),
    ):
        assert refusal(signed(f'{{"sub":"carol","nbf":{begin}}}')) == words


def test_a_token_without_expiry_is_refused_where_one_is_required() -> None:
    text = jwt.encode({"sub": "carol"}, SECRET, "HS256")
    assert refusal(text) == ""
    assert refusal(text, REQUIRED) == "the token has no expiry (exp), which this node requires"
    assert refusal(jwt.encode({"sub": "carol", "exp": NOW_S + 60}, SECRET, "HS256"), REQUIRED) == ""


def test_clients_whose_tokens_have_no_expiry_lose_access_when_it_becomes_required() -> None:
    access = authority()
    endless = access.authenticate(BearerToken(jwt.encode({"sub": "carol"}, SECRET, "HS256")), HOST)
    ending = access.authenticate(BearerToken(jwt.encode({"sub": "carol", "exp": NOW_S + 60}, SECRET, "HS256")), HOST)
    assert isinstance(endless, Principal)
    assert isinstance(ending, Principal)
    access.reconfigure(access_config({"jwt_secret": SECRET, **REQUIRED}))
    refused = access.current(endless)
    assert refused is not None
    assert refused.code is ErrorCode.NOT_AUTHENTICATED
    assert access.current(ending) is None
