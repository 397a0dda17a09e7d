"""Claims on subscriptions: each has one owner at a time, under an epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final

from domain.admin.subscription import Attempt, AttemptList, Claim, ClaimSubscriptions, SubscriptionsClaimed, TestSubscription
from domain.errors import ErrorCode, Failure
from domain.event import Refused
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock, Timer
from domain.store.store_ports import State
from domain.subscription.subscription import CLAIM_NS, Status
from gateway.connection.client_connection import ClientConnection
from gateway.usecase.handler import Verbs, answered_with
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace
from gateway.webhooks.subscriptions.subscriptions import WebhookSubscriptions

SPACE: Final = "webhook-claim"
"""State space: id -> `<epoch> <owner>`."""
WAIT_MS_MAX: Final = 5_000
TEST_NS: Final = 40 * SECOND_NS
"""Time after which a test delivery without a result fails with STORE_UNAVAILABLE."""
TESTS_MAX: Final = 16
"""Pending test deliveries of one subscription at most."""
OWNERS_MAX: Final = 256
VERSION_BITS: Final = 20
"""Bits of a version below its start time in ms: versions from before a restart of the store are lower."""
CHANGED_MAX: Final = 65_536
"""Changes that are remembered; above it they are dropped, and every owner gets all of its claims."""
DELIVERING: Final = (Status.ACTIVE, Status.PENDING)


@dataclass(slots=True)
class _Owner:
    """An owner. `until_ns`: end of its claims unless it renews them, monotonic; `capacity`: its claims at most."""

    until_ns: int
    capacity: int


@dataclass(slots=True)
class _HeldClaim:
    """A held ClaimSubscriptions: answered at the next version, or by its timer."""

    connection: ClientConnection
    command: ClaimSubscriptions
    timer: Timer


@final
class Claims:
    """The verbs ClaimSubscriptions and TestSubscription.

    The claims of an owner expire CLAIM_NS after its last request arrived here. The owner itself counts from the time at which
    it sent the request, so it stops before the next owner starts. A new leader of the store group reads the owners from the
    log, and waits CLAIM_NS before it reassigns their claims.
    """

    def __init__(self, state: State, book: WebhookSubscriptions, clock: Clock) -> None:
        self._state = state
        self._book = book
        self._clock = clock
        self._held = FollowedSpace(state, SPACE, _decode)
        self._began_ns = clock.monotonic_ns()
        self._owners: dict[str, _Owner] = {}
        self._waiting: dict[str, _HeldClaim] = {}
        self._taking: set[bytes] = set()
        self._version = clock.wall_ms() << VERSION_BITS
        self._oldest = self._version
        self._changed: dict[bytes, int] = {}
        self._serial = 0
        self._tests: dict[int, tuple[str, Callable[[list[Attempt] | Failure], None]]] = {}
        book.changed.append(lambda identity: self._renew(identity.encode()))
        book.wild.follow(lambda identity: self._renew(identity.encode()))
        self.verbs: Verbs = {ClaimSubscriptions: self._claim, TestSubscription: self._test}

    def holds(self, identity: str, epoch: int) -> bool:
        """True when `epoch` is the newest claim on a subscription, and its owner has not released it."""
        newest, owner = self._held.values.get(identity.encode(), (0, ""))
        return newest == epoch and owner != ""

    def follow(self, changed: Callable[[str, int, str], None]) -> None:
        """Call `changed` with (id, epoch, owner) on each change of a claim; owner "": it has none."""

        def notified(key: bytes, value: bytes | None) -> None:
            epoch, owner = (0, "") if value is None else _decode(value)
            changed(key.decode(), epoch, owner)

        self._state.follow(SPACE, notified)

    # Claims

    def _claim(self, connection: ClientConnection, command: ClaimSubscriptions) -> None:
        now = self._clock.monotonic_ns()
        self._expire(now)
        owner = self._owners.get(command.owner)
        if command.capacity <= 0:
            self._wake(command.owner)
            if owner is not None:
                del self._owners[command.owner]
                self._give_back(command.owner)
                self._renew()
            connection.answer(SubscriptionsClaimed(command.ticket, version=self._version, whole=True))
            return
        if owner is None:
            if len(self._owners) >= OWNERS_MAX:
                failure = Failure(ErrorCode.OVERLOADED, f"there are {OWNERS_MAX} owners of subscriptions")
                connection.answer(Refused(command.ticket, failure))
                return
            owner = self._owners[command.owner] = _Owner(now + CLAIM_NS, command.capacity)
        owner.until_ns, owner.capacity = now + CLAIM_NS, command.capacity
        self._take(now)
        if command.seen == self._version and command.wait_ms > 0:
            self._park(connection, command, now)
        else:
            self._answer(connection, command)

    def _park(self, connection: ClientConnection, command: ClaimSubscriptions, now: int) -> None:
        before = self._waiting.pop(command.owner, None)
        if before is not None:
            before.timer.cancel()
            self._answer(before.connection, before.command)
        due = now + min(command.wait_ms, WAIT_MS_MAX) * MILLISECOND_NS
        timer = self._clock.call_at(due, lambda: self._wake(command.owner))
        self._waiting[command.owner] = _HeldClaim(connection, command, timer)

    def _wake(self, name: str) -> None:
        waiting = self._waiting.pop(name, None)
        if waiting is not None:
            waiting.timer.cancel()
            self._answer(waiting.connection, waiting.command)

    def _renew(self, *keys: bytes) -> None:
        """Mark these subscriptions as changed, assign free claims, and answer all held requests."""
        self._mark(keys)
        self._take(self._clock.monotonic_ns())
        self._wake_all()

    def _mark(self, keys: Iterable[bytes]) -> None:
        self._version += 1
        for key in keys:
            self._changed[key] = self._version

    def _wake_all(self) -> None:
        for name in list(self._waiting):
            self._wake(name)

    def _answer(self, connection: ClientConnection, command: ClaimSubscriptions) -> None:
        """Answer an owner with the changes since the version it has seen; with all of its claims if that version is too old."""
        whole = not self._oldest <= command.seen <= self._version
        held = self._held.values
        keys = list(held) if whole else [key for key, version in self._changed.items() if version > command.seen]
        tests: dict[str, list[int]] = {}
        for serial, (identity, _) in self._tests.items():
            tests.setdefault(identity, []).append(serial)
        claims: list[Claim] = []
        gone: list[str] = []
        for key in keys:
            epoch, name = held.get(key, (0, ""))
            record = self._book.claimed(key) if name == command.owner and self._wanted(key) else None
            if record is not None:
                identity = key.decode()
                claims.append(Claim(identity, record, epoch, tests.get(identity, [])))
            elif not whole:
                gone.append(key.decode())
        connection.answer(SubscriptionsClaimed(command.ticket, claims, gone, self._version, whole))

    def _wanted(self, key: bytes) -> bool:
        """True when a subscription needs an owner: it is active or pending, or has a pending test."""
        status = self._book.statuses.get(key)
        if status is None:
            return False
        return status in DELIVERING or any(name.encode() == key for name, _ in self._tests.values())

    def _expire(self, now: int) -> None:
        for name in [name for name, owner in self._owners.items() if owner.until_ns <= now]:
            del self._owners[name]

    def _give_back(self, name: str) -> None:
        self._held.put(
            {key: _encode(epoch, "") for key, (epoch, held) in self._held.values.items() if held == name}, None
        )  # fmt: skip

    def _take(self, now: int) -> None:
        """Assign free subscriptions to owners with room, by rendezvous hashing."""
        if not self._owners:
            return
        counts = dict.fromkeys(self._owners, 0)
        for _, name in self._held.values.values():
            if name in counts:
                counts[name] += 1
        fresh: dict[bytes, bytes | None] = {}
        for key in self._book.records:
            epoch, name = self._held.values.get(key, (0, ""))
            if name in self._owners or key in self._taking or (name and now < self._began_ns + CLAIM_NS):
                continue
            room = [each for each, count in counts.items() if count < self._owners[each].capacity]
            if not room:
                break
            successor = max(room, key=lambda each: hashlib.blake2b(each.encode() + b"\0" + key, digest_size=8).digest())
            counts[successor] += 1
            fresh[key] = _encode(epoch + 1, successor)
        for key in self._held.values:
            if key not in self._book.records and key not in self._taking:
                fresh[key] = None
        if fresh:
            self._taking.update(fresh)
            self._held.put(fresh, lambda result: self._taken(list(fresh), result))

    def _taken(self, keys: Sequence[bytes], result: None | Failure) -> None:
        self._taking.difference_update(keys)
        if result is None:
            self._mark(keys)
            self._wake_all()
            if len(self._changed) > CHANGED_MAX:
                self._changed.clear()
                self._oldest = self._version

    # Tests

    def _test(self, connection: ClientConnection, command: TestSubscription) -> None:
        found = self._book.visible(command, command.id)
        failure = found if isinstance(found, Failure) else None
        if failure is None and sum(1 for name, _ in self._tests.values() if name == command.id) >= TESTS_MAX:
            failure = Failure(ErrorCode.OVERLOADED, f"{TESTS_MAX} test deliveries wait already")
        if failure is not None:
            connection.answer(Refused(command.ticket, failure))
            return

        self._serial += 1
        serial = self._serial
        self._tests[serial] = (command.id, answered_with(connection, command.ticket, AttemptList))
        key = command.id.encode()
        late = Failure(ErrorCode.STORE_UNAVAILABLE, "nobody delivers for this subscription now; try again")
        self._clock.call_at(self._clock.monotonic_ns() + TEST_NS, lambda: self.tested(serial, late))
        self._renew(key)

    def tested(self, serial: int, result: list[Attempt] | Failure) -> None:
        """A test delivery has ended: with its attempts, or a failure."""
        found = self._tests.pop(serial, None)
        if found is not None:
            self._mark((found[0].encode(),))
            found[1](result)


def _encode(epoch: int, owner: str) -> bytes:
    return f"{epoch} {owner}".encode()


def _decode(value: bytes) -> tuple[int, str]:
    epoch, _, owner = value.decode().partition(" ")
    return int(epoch), owner
