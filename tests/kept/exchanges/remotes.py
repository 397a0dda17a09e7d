"""Frames of replicas in another place (decision 116): what they say of themselves, and their promotion."""

from __future__ import annotations

from functools import partial

from controller.groups import command as group_command
from domain.controller.change import PromoteLearner
from domain.controller.remote import RemoteWord
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import StoreGroupsListed
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.dispatch import READERS
from tests.kept.exchanges.controllers import HEARD, LIST, asked, heard
from tests.kept.exchanges.exchange import Exchange, Exchanges, answer, request
from tests.kept.exchanges.raft import GROUP, REPORTS

FAR = RemoteWord("frankfurt-2", 70_000, 1_500)
PROMOTE = PromoteLearner("broker-a", 2, 9, "broker-a", REPORTS)

REMOTES: Exchanges = {
    "heartbeat of a remote replica": request(
        READERS,
        asked(
            codes.BROKER_HEARTBEAT,
            asking.heartbeat("main", "broker-a", "10.0.0.2:10912", ReplicaWord(REPORTS[1], run="run-2", remote=FAR), 3_000),
        ),
    ),
    "list with a remote replica": answer(
        READERS, LIST, StoreGroupsListed(None, None, [(GROUP, (HEARD[0], heard(1, remote=FAR)))]), asking.listed
    ),
    "change: promote": request(READERS, asked(codes.CHANGE_STORE_GROUP, {}, asking.changing(PROMOTE))),
    "command: promote": Exchange(partial(group_command.encode, PROMOTE), group_command.decode),
}  # fmt: skip
