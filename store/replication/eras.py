"""How far two logs are the same: an epoch has one leader, so what both have of it is one history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from domain.replication.message import Era

NOTHING: Final = -1
"""In place of a position: the logs have nothing in common that could be continued."""


def common_end(ours: Sequence[Era], our_end: int, theirs: Sequence[Era], their_end: int) -> int:
    """Position behind the last batch that both logs have, or NOTHING.

    The newest epoch that both have ends in each log where the next one begins, or with the log. Its begin is not compared: a
    log may have lost it to retention. Epoch 0 is that of a node without replicas: only a log that is the group's names it.
    """
    ends = _ends(theirs, their_end)
    for epoch, end in reversed(_ends(ours, our_end).items()):
        if epoch in ends:
            return min(end, ends[epoch])
    return NOTHING


def _ends(eras: Sequence[Era], end: int) -> dict[int, int]:
    """Epoch -> where it ends, ascending."""
    behind = [*(era.begin for era in eras[1:]), end]
    return {era.epoch: limit for era, limit in zip(eras, behind, strict=False)}
