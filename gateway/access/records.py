"""Users and their policies, in memory and in the store.

State space `access`, keys `u` + name and `p` + name, each value a JSON document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final, final

import msgspec

from domain.access.access import AccessPolicy, Grant, User
from domain.errors import ErrorCode, Failure
from domain.store.store_ports import State, StateChange
from gateway.access.contexts import ContextRecords, Followed
from gateway.access.open_times import mark
from gateway.access.policy import Entries

SPACE: Final = "access"
USERS_MAX: Final = 100_000
POLICIES_MAX: Final = 1_000
"""Policies of one user."""

Done = Callable[[None | Failure], None]


@final
class AccessRecords:
    """Users and their policies.

    grants     stored policies by user name; those of the configuration (`fixed`) apply beside them
    contexts   security contexts of users
    epoch      rises with every change: decisions of an earlier epoch are out of date
    open       True: access is not controlled, and changes of users are marked for the next controlled start (`open_times`)
    """

    def __init__(
        self,
        state: State | None,
        fixed: Iterable[Grant] = (),
        followed: Followed | None = None,
        elsewhere: str = "at the node with the store",
    ) -> None:
        """`state`: store of the records; None: they are kept `elsewhere`, and `followed` reports their values."""
        self._state = state
        self._elsewhere = elsewhere
        self._fixed = {grant.user: grant.policies for grant in fixed}
        self._entries: dict[str, Entries] = {}
        self._generations: dict[str, int] = {}
        self.epoch = 1
        self.open = False
        self._followers: list[Callable[[], None]] = []
        self.users: dict[str, User] = {}
        self.grants: dict[str, Grant] = {}
        source = state if followed is None else followed
        if source is not None:
            source.follow(SPACE, self._changed)
        self.contexts = ContextRecords(state, followed, elsewhere, self._invalidate)

    def follow(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every change from now on."""
        self._followers.append(changed)

    def _changed(self, key: bytes, value: bytes | None) -> None:
        name = key[1:].decode()
        if key[:1] == b"u":
            self.users.pop(name, None)
            self._generations.pop(name, None)
            if value is not None:
                self.users[name] = msgspec.json.decode(value, type=User)
        elif value is not None:
            self.grants[name] = msgspec.json.decode(value, type=Grant)
        else:
            self.grants.pop(name, None)
        self._invalidate()

    def generation(self, user: str) -> int:
        """A number below 2^63 that changes when the user's password changes, the same on every node; 0: no such user."""
        known = self.users.get(user)
        if known is None:
            return 0
        found = self._generations.get(user)
        if found is None:
            found = self._generations[user] = _generation(known)
        return found

    def set_fixed(self, fixed: Iterable[Grant]) -> None:
        """Replace the grants of the configuration."""
        self._fixed = {grant.user: grant.policies for grant in fixed}
        self._invalidate()

    def _invalidate(self) -> None:
        self.epoch += 1
        self._entries.clear()
        for changed in self._followers:
            changed()

    def entries(self, user: str) -> Entries:
        """All policies of `user`, ready to decide."""
        found = self._entries.get(user)
        if found is None:
            grant = self.grants.get(user)
            found = Entries((*self._fixed.get(user, ()), *(grant.policies if grant is not None else ())))
            if len(self._entries) >= USERS_MAX:
                self._entries.clear()
            self._entries[user] = found
        return found

    def put_user(self, user: User, done: Done) -> None:
        """Add or replace a user. `done` gets None, QUOTA or the store's failure."""
        if user.name not in self.users and len(self.users) >= USERS_MAX:
            done(Failure(ErrorCode.QUOTA, f"there are {USERS_MAX} users already"))
            return
        self._put([StateChange(SPACE, user_key(user.name), encoded(user)), *self._marks(user.name)], done)

    def put_policies(self, user: str, policies: Sequence[AccessPolicy], done: Done) -> None:
        """Replace all stored policies of a user; an empty sequence removes them."""
        if len(policies) > POLICIES_MAX:
            done(Failure(ErrorCode.QUOTA, f"a user has at most {POLICIES_MAX} policies"))
            return
        grant = Grant(user, tuple(policies))
        self._put([StateChange(SPACE, grant_key(user), encoded(grant) if policies else None), *self._marks(user)], done)

    def drop_user(self, name: str, done: Done) -> None:
        """Remove a user, its policies and its security context."""
        changes = [StateChange(SPACE, key, None) for key in (user_key(name), grant_key(name))]
        if name in self.contexts.by_user:
            changes += self.contexts.removal(name)
        self._put(changes, done)

    def _marks(self, user: str) -> list[StateChange]:
        return [mark(user)] if self.open else []

    def _put(self, changes: list[StateChange], done: Done) -> None:
        if self._state is None:
            done(Failure(ErrorCode.NOT_SUPPORTED, f"users and policies are changed {self._elsewhere}"))
        else:
            self._state.put(changes, done)


def _generation(user: User) -> int:
    return int.from_bytes(hashlib.sha256(f"{user.name}\0{user.password}".encode()).digest()[:8]) >> 1 or 1


def user_key(name: str) -> bytes:
    """`u` + name: the key of a user in the state space `access`."""
    return b"u" + name.encode()


def grant_key(user: str) -> bytes:
    """`p` + name: the key of a user's policies there."""
    return b"p" + user.encode()


def encoded(value: User | Grant) -> bytes:
    """The value that is stored for a user, or for the policies of one."""
    return msgspec.json.encode(value)
