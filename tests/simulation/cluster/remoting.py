"""The adapter of the remoting protocol, for ports that serve nothing else."""

from __future__ import annotations

from domain.ports import Clock, Entropy
from gateway.node.config import Config
from protocols.adapter import Adapter
from protocols.remoting.adapter import PROTOCOL
from protocols.setting import Setting


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
