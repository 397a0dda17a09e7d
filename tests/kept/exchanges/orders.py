"""Answers of controllers that say how new they are (decision 112)."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.answer import GroupAnswer
from domain.controller.request import GroupChanged, StoreGroupsListed
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import HEARD, LIST, asked
from tests.kept.exchanges.exchange import Exchanges, answer
from tests.kept.exchanges.raft import GROUP
from tests.kept.exchanges.since import FOUND

DATED = replace(GROUP, order=4_711)

ORDERS: Exchanges = {
    "answer with an order": answer(
        READERS, asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(FOUND)),
        GroupChanged(None, GroupAnswer(None, DATED), frozenset({1})), asking.changed,
    ),
    "list with an order": answer(READERS, LIST, StoreGroupsListed(None, None, [(DATED, HEARD)]), asking.listed),
}  # fmt: skip
