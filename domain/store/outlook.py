"""The port to the state of leases in memory: lag of groups, places, and what can be leased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class GroupLag(NamedTuple):
    """The messages that a group has not settled in a topic, leased ones included, and the store time of the oldest.

    What it has settled behind a message that it holds does not count. `oldest_ms`: epoch ms, 0 when there is none.
    """

    group: str
    topic: str
    messages: int
    oldest_ms: int


class LagWalk(Protocol):
    """One walk over the positions of all groups, in steps. What changes meanwhile may count or not.

    Topics of the system, topics without a configuration and lite queues are left out.
    """

    @property
    def passed(self) -> int:
        """Positions that have been passed."""

    @property
    def total(self) -> int:
        """Positions that there are now."""

    @property
    def oldest_ns(self) -> int:
        """When the oldest row of `result` was read, monotonic, if that was in an earlier walk; 0: all are of this walk.

        Known when `result` has been asked for.
        """

    def step(self, cost: int) -> bool:
        """Go on; `cost` is about the number of positions to read one by one. True when all have been passed."""

    def result(self) -> tuple[list[GroupLag], GroupLag | None]:
        """(the pairs of a group and a topic with most messages, these first; all others together, None when there are none).

        Also pairs without lag. Complete when `step` has returned True.
        """


class Outlook(Protocol):
    """Asked of the leases in memory; answers at once."""

    def places(self) -> Sequence[tuple[str, str, int]]:
        """(group, topic, queue id) of every queue on which a group has a position, lite queues left out."""

    def places_after(self, place: tuple[str, str, int] | None, limit: int) -> Sequence[tuple[str, str, int]]:
        """At most `limit` of `places`, from the one behind `place` on, or from the first: a walk over all in slices."""

    def lags(self, most: int) -> LagWalk:
        """A walk over the lag of all groups, whose result names the `most` pairs with most messages."""

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Whether a Receive would find something, with the fields as in AwaitMessages. A filter may not want what there is.

        True too when there are more queues to look at than one turn has time for: a Receive looks at the next of them.
        """

    def delivered_below(self, group: str, topic: str, queue_id: int) -> int:
        """The offset below which all has been given to the group, or 0: what lies behind its position is being worked on."""
