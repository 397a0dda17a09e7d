"""The report of a store's node to its gateways: why it takes no messages, and where the replicas of its group are.

It is a space of values beside those of the store's state (space_source.py), so that gateways of the version before, which keep
the values and read none of them, get it too. A gateway that gets none goes on with what it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

import msgspec

from domain.address import endpoint_of
from domain.admin.replica import ServedReplica
from domain.controller.group import REPLICAS_MAX
from domain.controller.serving import GATEWAYS_SAID_MAX, GatewayWord, ServingWord
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Timer
from gateway.cluster.forwarding.gateway_clients import ForwardedClients
from gateway.cluster.forwarding.space_copies import SpaceCopies

SPACE: Final = "node"
REASONS: Final = b"reasons"
"""Key of a JSON list of sentences: why the store takes no messages; empty: it does."""
REPLICAS: Final = b"replicas"
"""Key of a JSON object: number of each replica that may lead -> `host:port` for gateways, "" when it is not known now."""
DOORS: Final = b"doors"
"""Key of a JSON object: number of each replica -> `host:port` at which it names the leader to gateways, as REPLICAS."""
LOOK_MS: Final = 200
"""Time between two looks at what is to be reported."""
SILENT_NS: Final = 5 * SECOND_NS
"""Time without a frame of a gateway after which it counts as silent: it sends one each second."""
REASONS_MAX: Final = 16
"""Reasons of one report."""
TEXT_MAX: Final = 2_048
"""Characters of one reason."""

ReplicasHeard = Callable[[Mapping[int, str]], None]
"""Callback with number -> `host:port`, "" when it is not known now."""
_REASONS = msgspec.json.Decoder(list[str])
_REPLICAS = msgspec.json.Decoder(dict[int, str])


@final
class StoreReport:
    """Reports to all gateways of a store's node, whenever something has changed, and to its replica, for the controllers."""

    def __init__(
        self, clock: Clock, forwarded: ForwardedClients, reasons: Callable[[], Sequence[str]], replica: ServedReplica | None
    ) -> None:
        """`reasons()`: why the node takes no messages, as in /readyz; `replica`: None when the store is not replicated."""
        self._clock = clock
        self._forwarded = forwarded
        self._reasons = reasons
        self._replica = replica
        self._timer: Timer | None = None

    def start(self) -> None:
        """Look every LOOK_MS until `stop`."""
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + LOOK_MS * MILLISECOND_NS, self._look)

    def _look(self) -> None:
        self.start()
        reasons = [each[:TEXT_MAX] for each in self._reasons()[:REASONS_MAX]]
        self._forwarded.report(SPACE, REASONS, msgspec.json.encode(reasons))
        replica = self._replica
        if replica is None:
            return
        replica.serves(ServingWord(0, "; ".join(reasons), self._gateways()))
        if gates := replica.gates():
            self._forwarded.report(SPACE, REPLICAS, msgspec.json.encode(gates))
            self._forwarded.report(SPACE, DOORS, msgspec.json.encode(replica.doors()))

    def _gateways(self) -> tuple[GatewayWord, ...]:
        """The connected gateways: the same ones each time, when there are more than a heartbeat has."""
        found = sorted(
            GatewayWord(each.life, each.name, each.quiet_ns // MILLISECOND_NS if each.quiet_ns > SILENT_NS else 0)
            for each in self._forwarded.gateways if each.connected
        )  # fmt: skip
        return tuple(found[:GATEWAYS_SAID_MAX])

    def stop(self) -> None:
        """Report nothing more: the node serves no clients from now on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._replica is not None:
            self._replica.serves(None)


@final
class ReportedStore:
    """The report as a gateway knows it. What cannot be read is ignored.

    reasons    why the store takes no messages; empty: it does, or has not said so
    """

    def __init__(self, state: SpaceCopies, changed: Callable[[], None], replicas: ReplicasHeard, doors: ReplicasHeard) -> None:
        """`changed`: called when `reasons` have changed; `replicas` and `doors`: with each report of REPLICAS and of DOORS."""
        self.reasons: tuple[str, ...] = ()
        self._changed = changed
        self._heard = {REPLICAS: replicas, DOORS: doors}
        state.follow(SPACE, self._take)

    def _take(self, key: bytes, value: bytes | None) -> None:
        try:
            if key == REASONS:
                found = tuple(_REASONS.decode(value) if value is not None else ())
                if found != self.reasons:
                    self.reasons = found
                    self._changed()
            elif value is not None and (heard := self._heard.get(key)) is not None:
                heard(_checked(_REPLICAS.decode(value)))
        except msgspec.MsgspecError:
            return


def _checked(replicas: dict[int, str]) -> dict[int, str]:
    """Replicas with addresses that can be used, REPLICAS_MAX at most."""
    found = {number: where if endpoint_of(where) else "" for number, where in replicas.items()}
    return dict(sorted(found.items())[:REPLICAS_MAX])
