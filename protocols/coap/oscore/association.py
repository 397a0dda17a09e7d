"""Security contexts in use by this process: keys, replay window, and numbers of responses.

    unknown --first request: run reserved--> challenged --request with Echo: held--> executing
                                                ^  another process holds it, or this one starts anew  |
                                                `------------------------------------------------'

The first request of a device is answered 4.01 with Echo, since what came before the start of the process is not known
(RFC 8613, appendix B.1.2). The process that is told a fresh Echo holds the context; the windows of all others end then.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, final

from domain.access import ContextProof
from domain.admin.oscore import RUN_BITS
from domain.oscore import OscoreContext, OscoreContexts
from domain.ports import Entropy
from protocols.coap.exchange.echo import Echoes
from protocols.coap.oscore.keys import Keys
from protocols.coap.oscore.window import ReplayWindow
from protocols.setting import Setting

ASSOCIATIONS_MAX: Final = 16_384
"""Contexts in use; the least recently used one makes room, and its device is asked for Echo again."""
NUMBERS: Final = 1 << RUN_BITS
AHEAD: Final = NUMBERS // 2
"""Numbers left, below which more are reserved."""
TURN_BITS: Final = 20
"""Bits of the number of a holder that count the windows of one run."""
_SHARED: Final = "coap.oscore"


@final
class Association:
    """One context in use.

    context   the context
    keys      its keys
    proof     what a request has proven that it protects
    name      tells its observations, unfinished bodies and values that are being read from those of others
    window    numbers that have come; None: not known, so that a request needs a fresh Echo
    run       the run of its numbers; 0: none yet
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
        """Changes with each window: what was fresh for one is not for another."""
        return b"%d.%d" % (self.run, self._turn)

    @property
    def left(self) -> int:
        """Sender sequence numbers that are reserved and not used."""
        return (NUMBERS - self._used if self.run else 0) + (NUMBERS if self._next else 0)

    def reserved(self, run: int) -> None:
        """A run is this process's own."""
        if self.run and self._used < NUMBERS:
            self._next = run
        else:
            self.run, self._used = run, 0

    def number(self) -> int:
        """The next sender sequence number; -1: none is reserved."""
        if self._used >= NUMBERS and self._next:
            self.run, self._next, self._used = self._next, 0, 0
        if not self.run or self._used >= NUMBERS:
            return -1
        self._used += 1
        return (self.run << RUN_BITS) + self._used - 1

    def accepts(self, holder: int) -> bool:
        """True when the window counts: no other process has executed requests since it began. `holder`: as stored."""
        if self.window is None:
            return False
        if holder == self._held:
            self._before = holder
        elif holder != self._before:
            self.window = None
        return self.window is not None

    def hold(self, number: int, holder: int) -> int:
        """Begin a window with a request that was proven fresh. Returns the number under which the context is to be held.

        No other window of any process has that number, so that a holder of before is never taken for the one of now.
        """
        self.window = ReplayWindow(number)
        self._turn += 1
        self._before, self._held = holder, (self.run << TURN_BITS) + self._turn
        return self._held

    def lose(self) -> None:
        """The context is not held: the next request needs a fresh Echo."""
        self.window = None


@final
class Associations:
    """All contexts in use by one process, whatever the transport. Only those that a device has proven are kept.

    contexts   the contexts of all users; None: access is not controlled, and there are none
    echoes     Echo values that show that a request is fresh
    """

    __slots__ = ("_live", "contexts", "echoes")

    def __init__(self, contexts: OscoreContexts | None, entropy: Entropy) -> None:
        self.contexts = contexts
        self.echoes = Echoes(entropy.token(16))
        self._live: OrderedDict[str, Association] = OrderedDict()

    @staticmethod
    def of(setting: Setting) -> Associations:
        """Those of a node: all its adapters of CoAP share them."""
        found = setting.kept.get(_SHARED)
        if not isinstance(found, Associations):
            found = Associations(setting.contexts, setting.entropy)
            setting.kept[_SHARED] = found
        return found

    def find(self, kid: bytes, id_context: bytes | None) -> Association | None:
        """The association with the context that a request names; a new one when it is not in use. None: no such context."""
        context = None if self.contexts is None else self.contexts.find(kid, id_context)
        if context is None:
            return None
        found = self._live.get(context.user)
        return found if found is not None and found.context == context else Association(context)

    def keep(self, association: Association) -> None:
        """A device has proven that it has this context."""
        user = association.context.user
        self._live[user] = association
        self._live.move_to_end(user)
        if len(self._live) > ASSOCIATIONS_MAX:
            self._live.popitem(last=False)

    def holder(self, association: Association) -> int:
        """The number under which a process holds the context, as stored; 0: none does."""
        return 0 if self.contexts is None else self.contexts.holder(association.context.user)
