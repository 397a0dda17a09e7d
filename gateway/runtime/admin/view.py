"""The part of a node that the admin port shows and controls, in each state of the node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from domain.access.access import Credentials
from domain.access.principal import Principal
from domain.errors import Failure
from domain.store.backup import Backups
from gateway.observe.health import Health
from gateway.observe.metrics import Snapshot
from protocols.hosts import Hosts

T = TypeVar("T")


class NotServedError(Exception):
    """A request that is not served: the status of HTTP, and a line of text."""

    def __init__(self, status: int, text: str, retry_s: int = 0) -> None:
        """`retry_s`: seconds after which the request may be repeated; 0: not said."""
        super().__init__(text)
        self.status = status
        self.text = text
        self.retry_s = retry_s


class NodeLoop(Protocol):
    """The way from the loop that serves the admin port to the loop of the node."""

    async def run(self, function: Callable[[], T]) -> T:
        """The result of `function`, called in the loop of the node. Raises NotServedError when that loop has no time."""


class Guard(Protocol):
    """Users who may be served: access control."""

    def authenticate(self, credentials: Credentials | None, host: str) -> Principal | Failure:
        """The principal of a user whom the credentials prove; a Failure with the text of the answer when they prove none."""

    def may_watch(self, principal: Principal) -> bool:
        """True for users who may read the metrics; everything else is for Super users."""


@dataclass(frozen=True, slots=True)
class Controls:
    """Operations of an administrator, while the node serves.

    loaded    state of the reloadable files
    backups   backups of the store in the folder `data`; None: its engine has none
    """

    loaded: Callable[[], list[dict[str, object]]]
    reload: Callable[[], None]
    backups: Backups | None = None
    data: str = ""


@dataclass(frozen=True, slots=True)
class AdminView:
    """A node in one of its states. All functions are called in the event loop of the node.

    hosts      names of this node
    guards     a request is served when one of them accepts its user; empty: access is not controlled
    snapshot   figures of the metrics page; None: there are none while the node starts
    controls   None: the node does not serve clients
    audited    (action, user, host, outcome) of what an administrator has done
    """

    health: Health
    hosts: Hosts
    guards: Callable[[], Sequence[Guard]] = tuple
    snapshot: Callable[[], Snapshot] | None = None
    controls: Controls | None = None
    audited: Callable[[str, str, str, str], None] | None = None

    @property
    def shows_metrics(self) -> bool:
        """False while the node opens its log for the first time."""
        return self.snapshot is not None and (self.controls is not None or bool(self.health.standby))
