"""Refusals of proposals, reads, changes and transfers, and the error of a violated safety property."""

from __future__ import annotations

from enum import Enum


class RaftRefusal(Enum):
    """Answer to a refused request, which has changed nothing."""

    NOT_LEADER = "another node leads, or none: ask the one that `Raft.leader` names"
    DAMAGED = "the log of this node is damaged"
    TRANSFERRING = "the leadership is being handed over"
    TOO_LARGE = "the command is larger than entry_bytes_max"
    TOO_MANY = "more is waiting for its commit, or its confirmation, than the settings allow"
    CHANGE_UNDER_WAY = "a change of members is not committed yet"
    TERM_NOT_COMMITTED = "the leader has not committed an entry of its own term yet"
    UNKNOWN_NODE = "a new voter has to be a learner first; who takes over the leadership has to be a voter"
    NOT_CAUGHT_UP = "the learner lacks more entries than promotion_lag_max"
    INVALID_MEMBERS = "no voters, too many nodes, a node that is voter and learner, or nothing that changes"


class LaterVersionError(ValueError):
    """State or a message in a form that only a later version of the program reads. It is whole, and must stay where it is.

    The text says what was found; `remedy` is the sentence for the operator.
    """

    def __init__(self, found: str) -> None:
        super().__init__(f"{found}: a later version has written it")

    @property
    def remedy(self) -> str:
        """Reason and next step."""
        return f"{self}. Nothing is damaged: leave the files where they are, and start that version, or a newer one, with them"


class SafetyError(Exception):
    """A safety rule of raft is violated: by a bug, by storage that has lost data, or by two nodes of one name.

    The driver stops the node, which could otherwise lose committed entries.
    """
