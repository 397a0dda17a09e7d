"""SCRAM-SHA-256 (RFC 5802, RFC 7677): the published example, and invalid proofs."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import pytest

from domain.access.access import Authenticated, Challenge, User
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from gateway.access.scram import ScramExchange, Verifiers, derive, prepared
from tests.simulation.kit.entropy import FixedEntropy

# RFC 7677, section 3
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_FIRST = "n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


class ScramClient:
    """The client, written from the RFC and not from the implementation."""

    def __init__(self, user: str, password: str, nonce: str = "abc", header: str = "n,,") -> None:
        self.password = password
        self.header = header
        self.bare = f"n={user},r={nonce}"
        self.signature = b""

    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes, nonce: str = "") -> bytes:
        said = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac("sha256", self.password.encode(), base64.b64decode(said["s"]), int(said["i"]))
        client_key = hmac.digest(salted, b"Client Key", "sha256")
        without = f"c={base64.b64encode(self.header.encode()).decode()},r={nonce or said['r']}"
        message = f"{self.bare},{challenge.decode()},{without}".encode()
        mask = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
        self.signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
        return f"{without},p={base64.b64encode(proof).decode()}".encode()


def exchange(users: dict[str, User]) -> ScramExchange:
    def judge(name: str, is_proven: bool) -> Principal | Failure:
        return Principal(name, "h") if is_proven else Failure(ErrorCode.NOT_AUTHENTICATED, "wrong")

    return ScramExchange(users, Verifiers(), judge, FixedEntropy())


USERS = {"ann": User("ann", "secret"), "a,b": User("a,b", "x")}


def test_the_example_of_rfc_7677() -> None:
    found = derive("pencil", SALT)
    message = f"{CLIENT_FIRST},{SERVER_FIRST},{CLIENT_FINAL}".encode()
    mask = hmac.digest(found.stored_key, message, "sha256")
    client_key = bytes(one ^ other for one, other in zip(PROOF, mask, strict=True))
    assert hashlib.sha256(client_key).digest() == found.stored_key
    assert hmac.digest(found.server_key, message, "sha256") == SIGNATURE


@pytest.mark.parametrize(("name", "user"), [("ann", "ann"), ("a=2Cb", "a,b")])
@pytest.mark.parametrize("header", ["n,,", "y,,"])
def test_a_proof_and_the_proof_of_the_server(name: str, user: str, header: str) -> None:
    server, client = exchange(USERS), ScramClient(name, USERS[user].password, header=header)
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    found = server.respond(client.final(challenge.data))
    assert isinstance(found, Authenticated)
    assert found.principal.user == user
    assert found.data == b"v=" + base64.b64encode(client.signature)


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("nobody", "secret")])
def test_a_wrong_password_and_a_wrong_name_look_alike(user: str, password: str) -> None:
    server, client = exchange(USERS), ScramClient(user, password)
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    assert server.respond(client.final(challenge.data)) == Failure(ErrorCode.NOT_AUTHENTICATED, "wrong")
    again = exchange(USERS).respond(client.first())
    assert isinstance(again, Challenge)
    assert again.data.split(b",")[1] == challenge.data.split(b",")[1], "the salt of a name changes"


@pytest.mark.parametrize(
    "first",
    [
        b"", b"\xff", b"n=ann,r=abc", b"p=tls-unique,,n=ann,r=abc", b"n,a=bob,n=ann,r=abc", b"n,,n=,r=abc", b"n,,n=ann,r=",
        b"n,,m=x,n=ann,r=abc", b"n,,n=a=2Db,r=abc", b"n,,r=abc,n=ann", b"n,,n=ann,r=a c", b"n,,n=ann,r=" + b"x" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_beginning(first: bytes) -> None:
    found = exchange(USERS).respond(first)
    assert isinstance(found, Failure)
    assert found.code is ErrorCode.NOT_AUTHENTICATED


def test_what_is_no_continuation() -> None:
    changes: list[Callable[[bytes], bytes]] = [
        lambda text: text.replace(b"c=biws", b"c=eSws"),
        lambda text: text.replace(b"r=abc", b"r=abd"),
        lambda text: text[:-4],
        lambda text: b"p=" + text,
        lambda text: text.partition(b",p=")[0],
    ]
    for change in changes:
        server, client = exchange(USERS), ScramClient("ann", "secret")
        challenge = server.respond(client.first())
        assert isinstance(challenge, Challenge)
        assert isinstance(server.respond(change(client.final(challenge.data))), Failure)


def test_a_changed_password_counts_at_once() -> None:
    users = dict(USERS)
    verifiers = Verifiers()
    before = verifiers.of(users["ann"], FixedEntropy())
    assert verifiers.of(users["ann"], FixedEntropy()) is before
    assert verifiers.of(User("ann", "other"), FixedEntropy()) != before


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("I\u00adX", "IX"), ("user", "user"), ("\u00aa", "a"), ("\u2168", "IX"), ("a\u00a0b", "a b"), ("\u0007", "\u0007")],
)
def test_the_examples_of_saslprep(text: str, wanted: str) -> None:
    """RFC 4013, section 3; strings with prohibited characters stay unchanged."""
    assert prepared(text) == wanted
