"""The adapter of the remoting protocol, for ports that serve nothing else; the port at which a replica has its followers."""

from __future__ import annotations

from domain.ports import Clock, Entropy
from gateway.connection.connection_limits import ConnectionLimits
from gateway.connection.context import ConnectionContext
from gateway.connection.handler import Handler
from gateway.node.settings import Config
from gateway.observe.counters import CounterRegistry
from protocols.adapter import Adapter
from protocols.remoting.adapter import PROTOCOL
from protocols.setting import Setting
from tests.simulation.kit.wires import Host, Listener

REPLICATION = 10912


def remoting_of(
    config: Config,
    host: str,
    port: int,
    entropy: Entropy,
    clock: Clock,
    *,
    is_controller: bool = False,
    is_replica: bool = False,
) -> Adapter:
    """The adapter of a controller's port, or of that of a replica."""
    setting = Setting(
        config.cluster, config.broker, host, {"remoting": port}, entropy, clock.wall_ms, is_controller=is_controller,
        is_replica=is_replica,
    )  # fmt: skip
    assert PROTOCOL.stream is not None
    return PROTOCOL.stream(setting, config.part(PROTOCOL.settings, PROTOCOL.name))


def replica_port(machine: Host, handler: Handler, entropy: Entropy) -> Listener:
    """The port of the present process of a replica."""
    context = ConnectionContext(handler, machine.clock, CounterRegistry(), ConnectionLimits(10_000), output_bytes_max=1 << 26)
    adapter = remoting_of(Config(), machine.host, REPLICATION, entropy, machine.clock, is_replica=True)
    return Listener(machine, REPLICATION, context, adapter)
