"""Joining of a controller to its group: founding with the others, admission, or return after a restart."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from controller.groups.snapshot import restore
from controller.member import identity as identities
from controller.member.founding import Founding
from controller.member.member import ENTRIES_KEPT, ControllerMember, MemberEvents
from controller.raft.disk_storage import FOLDER, RaftDiskStorage
from controller.raft.persisted import Persisted, founder
from controller.raft.refusal import LaterVersionError, SafetyError
from controller.slow_replicas.record import FiguresRecord
from domain.address import endpoint_of
from domain.errors import StoreError
from domain.ports import Clock, Disk, Entropy
from domain.repeated_lines import RepeatedLines
from gateway.cluster.controller.controller_requests import ControllerRequests
from gateway.cluster.controller.links import ControllerLinks, GreetingEvents
from gateway.link.request import Sign
from gateway.link.wire import Dialer

log: Final = logging.getLogger("headgate.controller")


@final
class GroupJoining:
    """Creates the group member of this controller once its group is known, or at the start when it was known before.

    waits         reason why this controller is not a member yet although the group is known: its disk has failed; "": none
    """

    def __init__(
        self, disk: Disk, clock: Clock, entropy: Entropy, founding: Founding, dialer: Dialer, sign: Sign | None,
        report: Callable[[str], None], entries_kept: int = ENTRIES_KEPT,
    ) -> None:  # fmt: skip
        """`report`: called twice a second with why this controller cannot serve, text
        for people; "": it can. `entries_kept`: see ControllerMember."""
        endpoints = [found for each in founding.addresses if (found := endpoint_of(each)) is not None]
        self.waits = ""
        self._report = report
        self._lines = RepeatedLines(log, clock)
        self._disk = disk
        self._clock = clock
        self._entropy = entropy
        self._founding = founding
        self._entries_kept = entries_kept
        self._storage = RaftDiskStorage(disk)
        self._beginning: Persisted | None = None
        self._is_out = False
        self.links = ControllerLinks(
            endpoints, founding, dialer, clock, entropy, sign, GreetingEvents(self._founded, self._greeted, self._parted)
        )  # fmt: skip
        self.requests = ControllerRequests(founding, endpoints, clock, entropy, self.links.notified)

    def start(self) -> None:
        """Take part again, or greet the others until the group is known. Raises StoreError for a state that cannot be read."""
        known = self._founding.identity
        persisted = self._storage.load()
        if known.founders:
            if self._storage.is_empty and self._founding.is_founder:
                persisted = Persisted(damage=f"{FOLDER} is empty, and {identities.NAME} says that it was not")
            self._join(persisted)
        self.links.start()

    def _founded(self, founders: frozenset[int]) -> None:
        log.info("the controllers are %s, and this one is %s", sorted(founders), self._founding.identity.node)
        self._beginning = Persisted()
        if self._founding.is_founder:
            self._beginning = founder(founders)
            self._storage.put_snapshot(self._beginning.snapshot)
        self._begin()

    def _begin(self) -> None:
        """Start the log of a founder on the disk before it takes part. When the disk fails, the next greeting tries again: no
        promise has been made yet, and each attempt rewrites its files.
        """
        persisted = self._beginning
        if persisted is None:
            return
        try:
            self._storage.sync()
            identities.store(self._disk, self._founding.identity)
        except OSError as error:
            if not self.waits:
                log.error("this controller takes no part yet: its log cannot be written (%s). It tries again", error)
            self.waits = f"its log cannot be written: {error}"
            return
        self.waits = ""
        self._beginning = None
        self._join(persisted)

    def _join(self, persisted: Persisted) -> None:
        node = self._founding.identity.node
        persisted = _readable(persisted)
        try:
            events = MemberEvents(self.requests.applied, self.requests.led)
            member = ControllerMember(
                node, persisted, self._storage, self.links, self._clock, self._entropy, events, self._entries_kept
            )
        except (SafetyError, ValueError) as error:
            raise StoreError(f"{FOLDER} cannot be used: {error}") from error
        if persisted.is_later:
            log.error("this controller takes part in nothing: %s", member.failure)
        elif member.failure:
            log.error("this controller takes part in nothing: %s. While a majority of the others works, headgate cluster "
                      "renew-controller DIR lets it come back as a new member", member.failure)  # fmt: skip
        self.requests.joined(member, FiguresRecord(self._disk))
        member.start()

    def _parted(self, node: int) -> None:
        if self.requests.member is not None:
            self.requests.member.parted(node)

    def _look(self) -> None:
        """Report why this controller cannot serve, in the log too."""
        text = self._why()
        self._lines.state(logging.WARNING, text)
        self._report(text)

    def _why(self) -> str:
        member, founding = self.requests.member, self._founding
        silent = f"{', '.join(founding.missing)} {'has' if len(founding.missing) == 1 else 'have'} not answered"
        if self.waits:
            return f"this controller takes no part yet: {self.waits}"
        if member is None:
            if not founding.missing:
                return "this controller waits until the others take it in"
            return f"this controller waits for the others: {silent}; a new group of controllers needs all of them once"
        if member.failure:
            return f"this controller takes part in nothing: {member.failure}"
        if self._is_out:
            return "this controller was removed"
        if not member.leader:
            return f"no controller leads: {silent}" if founding.missing else "no controller leads"
        return ""

    def _greeted(self) -> None:
        self._begin()
        self._look()
        member = self.requests.member
        if member is None:
            self.links.follow((), ())
            return
        book = member.groups.book
        self.links.follow(book.addresses, member.members)
        if not book.number:
            member.revise(self._founding.nodes, not self._founding.missing)
            return
        member.follow_book(self._founding.here)
        is_out = self._founding.address not in book.addresses and all(each.node != member.node for each in book.places)
        if is_out and not self._is_out:
            log.warning("controllers: this one was removed: %s go on without it. Stop it", ", ".join(book.addresses))
        self._is_out = is_out


def _readable(persisted: Persisted) -> Persisted:
    """The state; or, when its snapshot is of a later version, the reason to take part in nothing with it."""
    try:
        restore(persisted.snapshot.data)
    except LaterVersionError as error:
        return Persisted(damage=f"{FOLDER}: {error.remedy}", is_later=True)
    return persisted
