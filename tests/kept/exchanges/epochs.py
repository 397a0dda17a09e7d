"""Frames that say in which epoch the store of a gateway leads (decision 114)."""

from __future__ import annotations

from dataclasses import replace

from domain.client.node import NodeGreeted
from protocols.remoting.dispatch import READERS
from protocols.remoting.nodes.forwarding.greeting import encode, welcome_of
from tests.kept.exchanges.exchange import Exchanges, answer
from tests.kept.exchanges.forwarding import WELCOME, greet

EPOCHS: Exchanges = {
    "welcome with an epoch": answer(
        READERS, greet, NodeGreeted(None, encode(replace(WELCOME, epoch=7))), lambda frame: welcome_of(frame.body)
    )
}
