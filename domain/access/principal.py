"""The principal: the user that a protocol's credentials belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, final

from domain.errors import Failure


@final
@dataclass(slots=True, eq=False, repr=False)
class Principal:
    """One authenticated user at one address.

    user         its name, which policies and rules use
    host         its address, without port
    privileged   True: a Super user, who may do everything
    registered   True: it authenticated with a password of the user table, and is valid as long as that user and password are
    proof        the authority's record of the credentials; the principal is valid as long as it is
    expires_ms   end of its token, epoch milliseconds; 0: never
    epoch        version of users and policies that `verdicts` were made with
    verdicts     cached decisions, bounded by the code that makes them
    """

    user: str
    host: str
    privileged: bool = False
    registered: bool = False
    expires_ms: int = 0
    epoch: int = 0
    proof: object = None
    verdicts: dict[object, Failure | None] = field(default_factory=dict)


GATEWAY: Final = Principal("", "", True)
"""The gateway itself: for commands by which an adapter fulfils a promise that it has made already."""
