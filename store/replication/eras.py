"""Common part of two logs: an epoch has one leader, so the batches of an epoch are the same in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.replication.message import Era

NOTHING: Final = -1
"""Value instead of a position: the logs have no common part to continue."""


def common_end(ours: Sequence[Era], our_end: int, theirs: Sequence[Era], their_end: int) -> int:
    """Position behind the last batch that both logs have, or NOTHING.

    In each log the newest common epoch ends at the begin of the next epoch, or at the end of the log. The begin of the epoch is
    not compared: retention may have deleted it. Epoch 0 is that of a node without replicas: only a log of the group lists it.
    """
    ends = _ends(theirs, their_end)
    for epoch, end in reversed(_ends(ours, our_end).items()):
        if epoch in ends:
            return min(end, ends[epoch])
    return NOTHING


def _ends(eras: Sequence[Era], end: int) -> dict[int, int]:
    """Epoch -> position of its end, ascending."""
    behind = [*(era.begin for era in eras[1:]), end]
    return {era.epoch: limit for era, limit in zip(eras, behind, strict=False)}
