"""One line of the report: what became of one topic, group, position, user or policy."""

from __future__ import annotations

import enum
from typing import NamedTuple

from protocols.remoting.wire.frame import Frame


class Outcome(enum.Enum):
    """MADE and CHANGED: done at the node. SAME: nothing to do. KEPT: the node's own stays. LEFT: it cannot be copied."""

    MADE = "made"
    CHANGED = "changed"
    SAME = "same"
    KEPT = "kept"
    LEFT = "not copied"


class Row(NamedTuple):
    """The outcome of the import of one topic, group, position, user or policy.

    kind      "topic", "group", "position", "user", "policy"
    outcome   what was done; in a dry run, what would be
    detail    what there is to know, "": nothing
    """

    kind: str
    name: str
    outcome: Outcome
    detail: str = ""


def done(kind: str, name: str, outcome: Outcome, detail: str, answer: Frame) -> Row:
    """The row of something that the node was asked to make or change."""
    if answer.code == 0:
        return Row(kind, name, outcome, detail)
    return Row(kind, name, Outcome.LEFT, f"the node refuses it: {answer.remark or f'code {answer.code}'}")
