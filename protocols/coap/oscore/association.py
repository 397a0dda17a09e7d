"""Security contexts in use by this process: keys, replay window, and sequence numbers of responses.

    unknown --first request: run reserved--> challenged --request with Echo: held--> executing
                                                ^  another process holds it, or this one restarts  |
                                                `--------------------------------------------------'

The first request of a device is answered 4.01 with Echo, since the process does not know the requests before its start
(RFC 8613, appendix B.1.2). The process that receives a fresh Echo holds the context, which ends the windows of all others.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from domain.access.access import ContextProof
from domain.access.oscore import ALGORITHMS, Algorithm, OscoreContext, OscoreContexts
from domain.admin.oscore import RUN_BITS
from domain.errors import Failure
from domain.ports import Entropy
from protocols.coap.exchange.echo import Echoes
from protocols.coap.oscore import cose
from protocols.setting import Setting

CHACHA: Final = 24
WINDOW: Final = 32
"""Numbers in the window: a number may arrive up to WINDOW - 1 below the highest."""
ASSOCIATIONS_MAX: Final = 16_384
"""Limit on contexts in use; the least recently used one is dropped, and its device is challenged again."""
NUMBERS: Final = 1 << RUN_BITS
"""Sequence numbers of one run."""
AHEAD: Final = NUMBERS // 2
"""Remaining numbers below which another run is reserved."""
TURN_BITS: Final = 20
"""Low bits of the number of a holder, which count the windows of one run."""
_SHARED: Final = "coap.oscore"


@final
@dataclass(slots=True, eq=False)
class Claim:
    """Ticket of a pending command about a security context (`domain.admin.oscore`).

    settled   called with its outcome (a run or a failure) and the time in monotonic ns
    """

    settled: Callable[[int | Failure, int], None]


@final
class Keys:
    """Keys derived from a security context: the device's key opens requests, the node's key seals responses."""

    __slots__ = ("_device", "_node", "algorithm", "common_iv", "device_id", "node_id")

    def __init__(self, context: OscoreContext) -> None:
        kind = ALGORITHMS[context.algorithm]
        self.algorithm = context.algorithm
        self.device_id = context.device_id
        self.node_id = context.node_id
        self.common_iv = derived(context, b"", "IV", kind.nonce_bytes)
        self._device = _aead(context.algorithm, kind, derived(context, context.device_id, "Key", kind.key_bytes))
        self._node = _aead(context.algorithm, kind, derived(context, context.node_id, "Key", kind.key_bytes))

    def open(self, piv: bytes, ciphertext: bytes) -> bytes | None:
        """Plaintext of a request (section 8.2); None: it was protected with another context, or changed."""
        data = cose.additional_data(self.algorithm, self.device_id, piv)
        try:
            return self._device.decrypt(cose.nonce(self.common_iv, self.device_id, piv), ciphertext, data)
        except (InvalidTag, ValueError):
            return None

    def seal(self, request_piv: bytes, piv: bytes, plaintext: bytes) -> bytes:
        """Ciphertext of a response to the request with `request_piv` (section 8.3).

        piv   Partial IV of this node; b"": use the nonce of the request, at most once
        """
        data = cose.additional_data(self.algorithm, self.device_id, request_piv)
        if piv:
            nonce = cose.nonce(self.common_iv, self.node_id, piv)
        else:
            nonce = cose.nonce(self.common_iv, self.device_id, request_piv)
        return self._node.encrypt(nonce, plaintext, data)


def derived(context: OscoreContext, ident: bytes, kind: str, size: int) -> bytes:
    """Key or Common IV of a context (section 3.2.1)."""
    info = cose.derivation(ident, context.id_context, context.algorithm, kind, size)
    return HKDF(SHA256(), size, context.salt or None, info).derive(context.secret)


def _aead(number: int, kind: Algorithm, key: bytes) -> AESCCM | AESGCM | ChaCha20Poly1305:
    if number == CHACHA:
        return ChaCha20Poly1305(key)
    return AESCCM(key, kind.tag_bytes) if kind.nonce_bytes == 13 else AESGCM(key)


@final
class ReplayWindow:
    """Received sequence numbers (RFC 8613, section 7.4). Those more than WINDOW - 1 below the highest count as received."""

    __slots__ = ("_highest", "_seen")

    def __init__(self, first: int) -> None:
        """Begin with `first` and all numbers below it as received."""
        self._highest = first
        self._seen = (1 << WINDOW) - 1

    def fresh(self, number: int) -> bool:
        """True when the number was not received before."""
        back = self._highest - number
        return back < 0 or (back < WINDOW and not self._seen >> back & 1)

    def mark(self, number: int) -> None:
        """Mark a fresh number as received."""
        ahead = number - self._highest
        if ahead > 0:
            self._seen = (self._seen << min(ahead, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = number
        else:
            self._seen |= 1 << -ahead


@final
class Association:
    """One security context in use.

    proof     credentials that a request protected with it has proven
    name      unique name for its observations, unfinished bodies and pinned values
    window    received sequence numbers; None: unknown, and a request needs a fresh Echo
    run       current run of sender sequence numbers; 0: none yet
    _before   stored number of the holder at the begin of the window
    _held     number under which this process holds the context
    _next     reserved run after `run`; 0: none
    _turn     number of windows so far
    _used     used numbers of `run`
    """

    __slots__ = ("_before", "_held", "_next", "_turn", "_used", "context", "keys", "name", "proof", "run", "window")

    def __init__(self, context: OscoreContext) -> None:
        self.context = context
        self.keys = Keys(context)
        self.proof = ContextProof(context.user, context.digest)
        self.name = b"oscore:" + context.digest.encode()
        self.window: ReplayWindow | None = None
        self.run = 0
        self._next = 0
        self._used = 0
        self._held = 0
        self._before = 0
        self._turn = 0

    @property
    def turn(self) -> bytes:
        """Text that changes with each window: an Echo value is fresh for one window only."""
        return b"%d.%d" % (self.run, self._turn)

    @property
    def left(self) -> int:
        """Number of reserved sender sequence numbers that are unused."""
        return (NUMBERS - self._used if self.run else 0) + (NUMBERS if self._next else 0)

    def reserved(self, run: int) -> None:
        """Add a run that was reserved for this process."""
        if self.run and self._used < NUMBERS:
            self._next = run
        else:
            self.run, self._used = run, 0

    def number(self) -> int:
        """Next sender sequence number; -1: none is reserved."""
        if self._used >= NUMBERS and self._next:
            self.run, self._next, self._used = self._next, 0, 0
        if not self.run or self._used >= NUMBERS:
            return -1
        self._used += 1
        return (self.run << RUN_BITS) + self._used - 1

    def accepts(self, holder: int) -> bool:
        """True when the window is valid: no other process has held the context since its begin. `holder`: the stored one."""
        if self.window is None:
            return False
        if holder == self._held:
            self._before = holder
        elif holder != self._before:
            self.window = None
        return self.window is not None

    def hold(self, number: int, holder: int) -> int:
        """Begin a window with a request that was proven fresh. Returns the number under which to hold the context.

        The number is unique among the windows of all processes: an earlier holder is never taken for the current one.
        """
        self.window = ReplayWindow(number)
        self._turn += 1
        self._before, self._held = holder, (self.run << TURN_BITS) + self._turn
        return self._held

    def lose(self) -> None:
        """End the window, since the context is not held: the next request needs a fresh Echo."""
        self.window = None


@final
class Associations:
    """All contexts in use by one process, on all transports. Only contexts that a device has proven are kept.

    contexts   the contexts of all users; None: no access control, and no contexts
    echoes     Echo values that prove the freshness of a request
    """

    def __init__(self, contexts: OscoreContexts | None, entropy: Entropy) -> None:
        self.contexts = contexts
        self.echoes = Echoes(entropy.token(16))
        self._live: OrderedDict[str, Association] = OrderedDict()

    @staticmethod
    def of(setting: Setting) -> Associations:
        """Associations of a node, shared by all its CoAP adapters."""
        found = setting.kept.get(_SHARED)
        if not isinstance(found, Associations):
            found = Associations(setting.contexts, setting.entropy)
            setting.kept[_SHARED] = found
        return found

    def find(self, kid: bytes, id_context: bytes | None) -> Association | None:
        """Association with the context that a request names, new if it is not in use. None: no such context."""
        context = None if self.contexts is None else self.contexts.find(kid, id_context)
        if context is None:
            return None
        found = self._live.get(context.user)
        return found if found is not None and found.context == context else Association(context)

    def keep(self, association: Association) -> None:
        """Keep an association whose context a device has proven, as the most recently used one."""
        user = association.context.user
        self._live[user] = association
        self._live.move_to_end(user)
        if len(self._live) > ASSOCIATIONS_MAX:
            self._live.popitem(last=False)

    def holder(self, association: Association) -> int:
        """Stored number under which a process holds the context; 0: none holds it."""
        return 0 if self.contexts is None else self.contexts.holder(association.context.user)
