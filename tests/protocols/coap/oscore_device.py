"""A device: aiocoap's implementation of OSCORE with a context in memory. Makes and reads datagrams; sends nothing."""

from __future__ import annotations

from typing import Any

import aiocoap
import pytest
from aiocoap.message import Direction
from aiocoap.numbers.types import ACK, CON, NON

from domain.access.access import ContextProof, Credentials
from domain.access.oscore import OscoreContext
from domain.access.principal import Principal
from domain.errors import ErrorCode, Failure
from domain.ports import Entropy
from protocols.coap.message.message import Pairs

pytest.importorskip("cbor2")
pytest.importorskip("filelock")
from aiocoap import oscore

SECRET = bytes(range(1, 17))
SALT = bytes.fromhex("9e7ca92223786340")
TYPES = {0: CON, 1: NON, 2: ACK}


def context(user: str = "sensor", device: bytes = b"\x01", id_context: bytes | None = None) -> OscoreContext:
    """The security context of a user."""
    return OscoreContext(user, device, b"\x00", SECRET, SALT, id_context)


class Authority:
    """Users who are known by their security contexts. Others are `guest`.

    contexts   answers for the contexts that it has
    """

    def __init__(self, *given: OscoreContext) -> None:
        self.contexts = Contexts(given)

    def authenticate(self, credentials: Credentials | None, host: str, certified: str = "") -> Principal | Failure:
        if credentials is None:
            return Principal("guest", host)
        if isinstance(credentials, ContextProof) and credentials.user in self.contexts.users:
            return Principal(credentials.user, host)
        return Failure(ErrorCode.NOT_AUTHENTICATED, "")

    def converse(self, method: str, host: str, entropy: Entropy) -> None:
        return None


class Contexts:
    """`domain.access.oscore.OscoreContexts`, with holders that tests set."""

    def __init__(self, given: tuple[OscoreContext, ...]) -> None:
        self.users = {each.user: each for each in given}
        self.holders: dict[str, int] = {}

    def find(self, device_id: bytes, id_context: bytes | None) -> OscoreContext | None:
        for each in self.users.values():
            if (each.device_id, each.id_context) == (device_id, id_context):
                return each
        return None

    def holder(self, user: str) -> int:
        return self.holders.get(user, 0)


class Device(oscore.CanProtect, oscore.CanUnprotect, oscore.SecurityContextUtils):  # type: ignore[misc]
    """The other side of a context."""

    def __init__(self, given: OscoreContext) -> None:
        self.alg_aead = next(each for each in oscore.algorithms.values() if each.value == given.algorithm)
        self.hashfun = oscore.hashfunctions[oscore.DEFAULT_HASHFUNCTION]
        self.sender_id = given.device_id
        self.recipient_id = given.node_id
        self.id_context = given.id_context
        self.sender_sequence_number = 0
        self.echo_recovery = None
        self.recipient_replay_window = oscore.ReplayWindow(32, lambda: None)
        self.recipient_replay_window.initialize_empty()
        self.derive_keys(given.salt, given.secret)
        self.sent: dict[bytes, object] = {}
        self._plain: bytes | None = None

    def post_seqnoincrease(self) -> None:
        """Nothing is kept."""

    def request(
        self, code: int, path: str, payload: bytes = b"", *, token: bytes, mid: int, kind: int = 0, query: tuple[str, ...] = (),
        **options: Any,
    ) -> bytes:  # fmt: skip
        """The datagram of a protected request."""
        inner = aiocoap.Message(code=aiocoap.Code(code), payload=payload, _mtype=TYPES[kind], **options)
        inner.opt.uri_path = tuple(path.split("/"))
        inner.opt.uri_query = query
        inner.direction = Direction.OUTGOING
        outer, self.sent[token] = self.protect(inner)
        outer.mtype, outer.mid, outer.token = TYPES[kind], mid, token
        data = outer.encode()
        assert isinstance(data, bytes)
        return data

    def anything(self, plain: bytes, *, token: bytes, mid: int) -> bytes:
        """The datagram of a protected request with any bytes inside."""
        self._plain = plain
        data = self.request(2, "mq", token=token, mid=mid)
        self._plain = None
        return data

    def _split_message(self, message: aiocoap.Message, request_id: object) -> tuple[aiocoap.Message, bytes]:
        outer, plain = super()._split_message(message, request_id)
        return outer, plain if self._plain is None else self._plain

    def read(self, data: bytes) -> Answer:
        """A response: the one inside a protected one, or the one that is not protected."""
        outer = aiocoap.Message.decode(data)
        outer.direction = Direction.INCOMING
        if outer.opt.oscore is None:
            return Answer(outer, outer, False)
        inner, _ = self.unprotect(outer, self.sent[outer.token])
        return Answer(inner, outer, True)


class Answer:
    """A response.

    code        the response code
    payload     its payload
    options     (number, value) of its options
    sealed      True: it was protected
    outer       the message around it
    """

    def __init__(self, inner: aiocoap.Message, outer: aiocoap.Message, sealed: bool) -> None:
        self.code = int(inner.code)
        self.payload: bytes = inner.payload
        self.options: Pairs = [(int(each.number), each.encode()) for each in inner.opt.option_list()]
        self.echo: bytes | None = inner.opt.echo
        self.etag: bytes | None = inner.opt.etag
        self.inner = inner
        self.outer = outer
        self.sealed = sealed
