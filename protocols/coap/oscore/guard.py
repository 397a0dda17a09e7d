"""The check of protected requests (RFC 8613, section 8.2).

option --bad--> 4.02
  `-- context --unknown--> 4.01
        `-- window --replay--> 4.01                      these four are not protected
              `-- decryption --failed--> 4.00
                    `-- no window, no fresh Echo: 4.01 with Echo, when a run of numbers is reserved
                          `-- executed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.access.principal import GATEWAY
from domain.admin.oscore import HoldOscoreContext, ReserveOscoreRun
from domain.command import Command
from domain.errors import Failure
from protocols.coap import status
from protocols.coap.exchange.exchange import VERIFIED_NS, Exchange
from protocols.coap.message import message, option
from protocols.coap.message.option import Fault, KnownOptions
from protocols.coap.oscore import cose
from protocols.coap.oscore.association import Association, Associations, Claim
from protocols.coap.oscore.seal import Seal
from protocols.coap.responses import Responses

COSE: Final = Fault(message.BAD_OPTION, "Failed to decode COSE")
UNKNOWN: Final = Fault(message.UNAUTHORIZED, "Security context not found")
REPLAYED: Final = Fault(message.UNAUTHORIZED, "Replay detected")
BROKEN: Final = Fault(message.BAD_REQUEST, "Decryption failed")
OUTER: Final = Fault(message.METHOD_NOT_ALLOWED, "OSCORE is inside POST or FETCH, without blocks outside")


@final
class Guard:
    """Opens the protected requests of one endpoint or connection."""

    __slots__ = ("_known", "_outcomes", "_responder", "_waiting", "associations")

    def __init__(self, associations: Associations, outcomes: Responses, known: KnownOptions) -> None:
        self.associations = associations
        self._outcomes = outcomes
        self._responder = outcomes.responder
        self._known = known
        self._waiting: dict[Association, list[Exchange]] = {}

    def open(self, exchange: Exchange, payload: bytes, now: int) -> tuple[bytes, Sequence[Command]] | None:
        """(payload inside a request, further commands); None: the request is answered, or will be.

        `exchange` becomes the inner request: its code, its options, and the protection of its responses.
        """
        found = self._unprotect(exchange, payload, now)
        if found is None:
            return None
        association, number, body = found
        associations = self.associations
        associations.keep(association)
        holder = associations.holder(association)
        options = exchange.options
        fresh = bool(options.echo) and associations.echoes.proves(exchange.origin + association.turn, options.echo, now)
        if fresh:
            exchange.remote.verified_ns = max(exchange.remote.verified_ns, now + VERIFIED_NS)
        commands: list[Command] = []
        if association.accepts(holder) and association.window is not None:
            association.window.mark(number)
        elif fresh and association.run:
            commands.append(self._hold(association, number, holder))
        else:
            self._ask(association, exchange, now)
            return None
        if options.fault is not None:
            self._outcomes.fault(exchange, options.fault, now)
            return None
        return body, commands

    def _unprotect(self, exchange: Exchange, payload: bytes, now: int) -> tuple[Association, int, bytes] | None:
        """(context, sequence number, inner payload) of a request; `exchange` becomes the inner one. None: refused."""
        outer = exchange.options
        if exchange.code not in (message.POST, message.FETCH) or outer.block1 != option.ABSENT:
            self._refuse(exchange, OUTER, "oscore-cose", now)
            return None
        header = cose.read(outer.oscore or b"")
        if header is None or not payload:
            self._refuse(exchange, COSE, "oscore-cose", now)
            return None
        association = self.associations.find(header.kid, header.id_context)
        if association is None:
            self._refuse(exchange, UNKNOWN, "oscore-unknown", now)
            return None
        number = int.from_bytes(header.piv, "big")
        if association.accepts(self.associations.holder(association)):
            assert association.window is not None
            if not association.window.fresh(number):
                self._refuse(exchange, REPLAYED, "oscore-replay", now)
                return None
        plain = association.keys.open(header.piv, payload)
        pairs = message.split(plain, 1) if plain else None
        if not plain or pairs is None or not 0 < plain[0] < 32 or pairs[1] == len(plain) - 1:
            self._refuse(exchange, BROKEN, "oscore-decrypt", now)
            return None
        raw = plain[1 : pairs[1]]
        inner = self._known.by_bytes.get(raw)
        if inner is None:
            inner = self._known.decode(pairs[0], raw)
        if inner.observe != option.ABSENT and outer.observe == option.ABSENT:
            inner = option.read(pairs[0], raw)
            inner.observe = option.ABSENT  # a proxy has removed the outer option: no observation (section 4.1.3.5.1)
        if inner.oscore is not None and inner.fault is None:
            inner.fault = Fault(message.BAD_OPTION, "OSCORE inside OSCORE")
        exchange.protect(Seal(association, header.piv, exchange.code, self._reserve), plain[0], inner)
        return association, number, plain[pairs[1] + 1 :]

    def _refuse(self, exchange: Exchange, fault: Fault, why: str, now: int) -> None:
        """Answer with an unprotected error of Max-Age 0 (section 8.2)."""
        self._responder.count(why)
        self._responder.reply(exchange, fault.code, [(option.MAX_AGE, b"")], fault.text.encode(), now)

    # Freshness

    def _ask(self, association: Association, exchange: Exchange, now: int) -> None:
        """Challenge a request of unproven freshness, after a number is reserved for the response."""
        if exchange.seal is not None:
            exchange.seal.forbid_reuse()
        if association.left:
            self._challenge(association, exchange, now)
            return
        self._reserve(association)
        self._waiting[association].append(exchange)

    @staticmethod
    def _hold(association: Association, number: int, holder: int) -> Command:
        """Begin a window with a fresh request; the window ends if another process holds the context instead."""

        def refused(_outcome: int | Failure, _now: int) -> None:
            association.lose()

        command: Command = HoldOscoreContext(Claim(refused), association.context.user, association.hold(number, holder), holder)
        command.principal = GATEWAY
        return command

    def _challenge(self, association: Association, exchange: Exchange, now: int) -> None:
        self._responder.count("oscore-fresh")
        echo = self.associations.echoes.value(exchange.origin + association.turn, now)
        self._responder.reply(exchange, message.UNAUTHORIZED, [(option.ECHO, echo)], b"", now)

    def _reserve(self, association: Association) -> None:
        """Reserve a run of numbers, unless a reservation is pending. `_waiting` has the requests that wait for it."""
        if association in self._waiting:
            return
        self._waiting[association] = []

        def settled(outcome: int | Failure, now: int) -> None:
            waiting = self._waiting.pop(association)
            if not isinstance(outcome, Failure):
                association.reserved(outcome)
            for exchange in waiting:
                if isinstance(outcome, Failure):
                    exchange.seal = None
                    self._outcomes.fault(exchange, Fault(status.CODES[outcome.code], outcome.text), now)
                else:
                    self._challenge(association, exchange, now)

        self._outcomes.later.append(ReserveOscoreRun(Claim(settled), association.context.user))
