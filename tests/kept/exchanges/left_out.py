"""What a leader says of replicas that are not in sync, and what replicas say that they have seen (decisions 123 and 124)."""

from __future__ import annotations

from dataclasses import replace

from domain.controller.group import StateSeen
from domain.controller.left_out import LeftOut, MemberLack
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import StoreGroupsListed
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import HEARD, LIST, asked, heard
from tests.kept.exchanges.exchange import Exchanges, answer, request
from tests.kept.exchanges.raft import GROUP, REPORTS

LACKS = tuple(LeftOut(number, lack, 70_000 if lack is MemberLack.RECORDS else 0) for number, lack in enumerate(MemberLack, 2))
SEEN = replace(REPORTS[0], seen=StateSeen(7, 19))
WORD = heard(0, report=SEEN, left_out=LACKS)

LEFT_OUT: Exchanges = {
    "heartbeat of a leader": request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.1:10912", ReplicaWord(SEEN, run="run-1", left_out=LACKS), 3_000),
        ),
    ),
    "list with the word of a leader": answer(
        READERS, LIST, StoreGroupsListed(None, None, [(GROUP, (WORD, HEARD[1]))]), asking.listed
    ),
}  # fmt: skip
