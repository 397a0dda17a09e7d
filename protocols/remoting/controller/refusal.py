"""GroupRefusal -> response code. Every refusal has a row."""

from __future__ import annotations

from typing import Final

from domain.controller.answer import GroupRefusal
from protocols.remoting import codes
from protocols.remoting.ticket import Ticket

TABLE: Final[dict[GroupRefusal, int]] = {
    GroupRefusal.NOT_LEADING: codes.CONTROLLER_NOT_LEADER,
    GroupRefusal.INVALID: codes.CONTROLLER_INVALID_REQUEST,
    GroupRefusal.UNKNOWN_GROUP: codes.CONTROLLER_BROKER_METADATA_NOT_EXIST,
    GroupRefusal.NOT_REGISTERED: codes.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    GroupRefusal.ID_TAKEN: codes.CONTROLLER_BROKER_ID_INVALID,
    GroupRefusal.TOO_MANY: codes.CONTROLLER_BROKER_ID_INVALID,
    GroupRefusal.NOT_THE_LEADER: codes.CONTROLLER_INVALID_MASTER,
    GroupRefusal.OLD_LEADER_EPOCH: codes.CONTROLLER_FENCED_MASTER_EPOCH,
    GroupRefusal.OLD_SET_EPOCH: codes.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH,
    GroupRefusal.SAME_SET: codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    GroupRefusal.LEADER_MISSING: codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    GroupRefusal.NOT_A_REPLICA: codes.CONTROLLER_INVALID_REPLICAS,
    GroupRefusal.NOT_ALIVE: codes.CONTROLLER_BROKER_NOT_ALIVE,
    GroupRefusal.LEADER_VALID: codes.CONTROLLER_MASTER_STILL_EXIST,
    GroupRefusal.NO_CANDIDATE: codes.CONTROLLER_MASTER_NOT_AVAILABLE,
    GroupRefusal.ELECTION_FAILED: codes.CONTROLLER_ELECT_MASTER_FAILED,
    GroupRefusal.ALIVE: codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    GroupRefusal.NOT_TYPED: codes.CONTROLLER_INVALID_REQUEST,
    GroupRefusal.MEMBER_COMES_BACK: codes.CONTROLLER_MASTER_STILL_EXIST,
    GroupRefusal.OLD_BOOK: codes.CONTROLLER_INVALID_REQUEST,
    GroupRefusal.LAST_MEMBER: codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    GroupRefusal.FORGOTTEN: codes.CONTROLLER_ELECT_MASTER_FAILED,
    GroupRefusal.HAS_MEMBERS: codes.CONTROLLER_MASTER_STILL_EXIST,
    GroupRefusal.COPIED: codes.CONTROLLER_BROKER_ID_INVALID,
    GroupRefusal.OTHER_GROUP: codes.CONTROLLER_BROKER_ID_INVALID,
    GroupRefusal.TOO_FEW_FENCED: codes.CONTROLLER_ELECT_MASTER_FAILED,
    GroupRefusal.BAD_ACKS: codes.CONTROLLER_INVALID_REQUEST,
    GroupRefusal.OLD_VERSION: codes.CONTROLLER_INVALID_REQUEST,
    GroupRefusal.ACKS_IN_FORCE: codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
    GroupRefusal.RUNS_ELSEWHERE: codes.CONTROLLER_BROKER_ID_INVALID,
}
UNKNOWN_GROUP: Final[dict[int, int]] = {
    codes.ALTER_SYNC_STATE_SET: codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED,
    codes.CLEAN_BROKER_DATA: codes.CONTROLLER_INVALID_CLEAN_BROKER_METADATA,
}
"""Request code -> response code for a group that is not known, where it is not the one of TABLE."""


def refused(ticket: Ticket, refusal: GroupRefusal) -> bytes:
    """The reply to a request that was refused."""
    code = TABLE[refusal]
    if refusal is GroupRefusal.UNKNOWN_GROUP:
        code = UNKNOWN_GROUP.get(ticket.code, code)
    return ticket.reply(code, remark=refusal.value)
