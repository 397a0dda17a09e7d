"""The RocketMQ remoting protocol, for clients of a name server and of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocols.adapter import Setting
    from protocols.remoting.adapter import RemotingAdapter


def create(setting: Setting) -> RemotingAdapter:
    """The adapter. Raises ConfigError for options that it does not know.

    Imported here and not above: clients of a broker use this package's frames alone.
    """
    from protocols.remoting.adapter import RemotingAdapter
    from protocols.remoting.client import Facts
    from protocols.remoting.config import read

    return RemotingAdapter(Facts(setting, read(setting.options)))
