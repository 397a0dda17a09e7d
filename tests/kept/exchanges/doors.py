"""Frames by which a gateway finds the leader: a replica that follows names it, and says where it does so (decision 127)."""

from __future__ import annotations

from functools import partial

from domain.client.node import NodeGreeted
from domain.replication.message import FollowAccepted
from gateway.cluster.forwarding.store_report import DOORS
from protocols.remoting.dispatch import READERS
from protocols.remoting.nodes.forwarding.greeting import Elsewhere, ElsewhereError, encode, welcome_of
from protocols.remoting.wire.frame import Frame
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer
from tests.kept.exchanges.forwarding import greet
from tests.kept.exchanges.replication import answered
from tests.kept.exchanges.reports import heard, item_of


def _named(frame: Frame) -> tuple[str, int]:
    """(host, port) that the answer to a greeting names."""
    try:
        welcome_of(frame.body)
    except ElsewhereError as error:
        return error.where
    raise AssertionError("it is a welcome")


FOUND: Exchanges = {
    "item: doors": Exchange(partial(item_of, DOORS), heard),
    "accepted, with gates": answered(FollowAccepted(None, 5, 800, 100, gates="10.0.0.1:10911")),
    "answer of a follower": answer(READERS, greet, NodeGreeted(None, encode(Elsewhere("[::1]:10911"))), _named),
}
