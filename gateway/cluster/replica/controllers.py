"""Client of the controllers for one replica: heartbeats to all of them, queries and changes to the one that leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, final

from domain.address import endpoint_of, endpoint_text
from domain.controller.answer import GroupAnswer, GroupRefusal
from domain.controller.change import GroupChange
from domain.controller.group import StoreGroup
from domain.controller.health import Fitness
from domain.controller.replica_word import ReplicaWord
from domain.controller.request import ReplicaHeard
from domain.errors import Failure
from domain.limits import CONTROLLERS_MAX, MILLISECOND_NS
from domain.ports import Timer
from gateway.cluster.replica.identity import KnownControllers
from gateway.cluster.replica.peer_network import PeerNetwork
from gateway.link.link import AnswerBack, RemotingLink
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.controller import asking
from protocols.remoting.controller.change_form import process_fields
from protocols.remoting.ticket import RequestError
from protocols.remoting.wire.frame import Frame

BEAT_MS: Final = 250
"""Time between two heartbeats. The end of a connection reaches a controller sooner than a missing heartbeat."""
ALIVE_MS: Final = 2_500
"""Time after the last heartbeat for which a replica counts as alive."""
POLL_MS: Final = 1_000
"""Time between two queries of the group. Controllers report a new leader without a query."""
ANSWER_MS: Final = 2_000
_ROUNDS: Final = 2
"""Tries per controller for one request before it fails."""

log: Final = logging.getLogger("headgate.replica")

Changed = Callable[[GroupAnswer | None], None]


@dataclass(frozen=True, slots=True)
class GroupListener:
    """A replica that takes part in its store group.

    changed   called with the store group, whenever a controller reports how it is
    slow      called with the ids of the slow replicas of the group, as often as the controller that leads reports them
    word      what it says in its next heartbeat, once it is registered; GroupControllers adds the rest
    """

    changed: Callable[[StoreGroup], None]
    slow: Callable[[frozenset[int]], None]
    word: Callable[[], ReplicaWord]


class GroupWord(NamedTuple):
    """The newest answer of the controllers about the group. A controller answers once a majority has confirmed that it leads.

    asked_ns   when the question was sent, monotonic
    replicas   last reports of the replicas of the group; empty: they know no such group
    """

    asked_ns: int
    replicas: tuple[ReplicaHeard, ...]


@final
class GroupControllers:
    """Requests and notices between one replica and the controllers.

    It starts with the controllers of the settings, and gets the current list from the one that leads.

    refuses   reason why this replica does not follow the leader, for heartbeats; "": it follows, or tries to
    newest    the newest answer about the group; at the start one without replicas
    identity  identity of the store group of this replica's log, for heartbeats and queries; "": none is known
    """

    def __init__(
        self, cluster: str, group: str, endpoints: Sequence[tuple[str, int]], network: PeerNetwork,
        kept: KnownControllers | None = None, run: str = "",
    ) -> None:  # fmt: skip
        """`endpoints`: controllers of the settings; `kept`: file with the last known controllers, read and updated; `run`:
        random text of this process."""
        self.refuses = ""
        self._parted = 0
        self.newest = GroupWord(network.clock.monotonic_ns(), ())
        self.identity = ""
        self._run = run
        self._cluster = cluster
        self._group = group
        self._network = network
        self._clock = network.clock
        self._seeds = list(dict.fromkeys(endpoints))
        self._kept = kept
        self._known = list(dict.fromkeys((*self._seeds, *(() if kept is None else kept.read()))))
        self._links = [self._link(each) for each in self._known]
        self._leads = 0
        self._answering: set[tuple[str, int]] = set()
        self._address = ""
        self._listener: GroupListener | None = None
        self._beats: Timer | None = None
        self._polls: Timer | None = None
        self._closed = False

    def _link(self, endpoint: tuple[str, int]) -> RemotingLink:
        return self._network.link("controller", endpoint, self._noticed)

    @property
    def where(self) -> str:
        """Address of the controller that was asked last, or leads as far as is known."""
        return endpoint_text(*self._known[self._leads])

    def attach(self, listener: GroupListener) -> None:
        """From now on report to a replica whose log is open."""
        self._listener = listener

    def begin(self, address: str) -> None:
        """Start heartbeats of the attached replica, which is at `address`, and periodic queries of the group."""
        self._address = address
        self._beat()
        self._poll()

    def close(self) -> None:
        """Close the connections: the controllers treat this replica as dead."""
        self._closed = True
        for timer in (self._beats, self._polls):
            if timer is not None:
                timer.cancel()
        for link in self._links:
            link.close("this replica stops")

    @property
    def silence(self) -> str:
        """Why a request was not answered by a controller that leads, text for people."""
        silent = [endpoint_text(*each) for each in self._known if each not in self._answering]
        if len(silent) == len(self._known):
            return f"no controller answers, of {', '.join(silent)}"
        if not silent:
            return "the controllers answer, and none of them leads"
        return f"no controller leads; of {', '.join(silent)} there is no answer, and a new group needs all of them once"

    def _answers(self, at: int, does: bool) -> None:
        if at < len(self._known):
            (self._answering.add if does else self._answering.discard)(self._known[at])

    def ask(self, done: Callable[[StoreGroup | None, bool], None]) -> None:
        """Query the group. `done(group, known)`: (None, True): it does not exist yet; (None, False): no controller answered."""

        def answered(frame: Frame | None, asked_ns: int) -> None:
            if frame is None:
                done(None, False)
                return
            try:
                found = asking.listed(frame)
            except RequestError:
                done(None, False)
                return
            if isinstance(found, GroupRefusal):
                done(None, False)
                return
            groups, listener = found[0], self._listener
            words = groups[0][1] if groups else ()
            self.newest = max(self.newest, GroupWord(asked_ns, tuple(words)), key=lambda each: each.asked_ns)
            if listener is not None and groups:
                listener.slow(frozenset(each.report.id for each in words if each.standing.fitness is Fitness.SLOW))
            done(groups[0][0] if groups else None, True)

        self._led(codes.LIST_STORE_GROUPS, asking.listing("", (self._group,), self.identity), answered)

    def change(self, change: GroupChange, done: Changed) -> None:
        """Request a change. `done` gets None when the outcome is unknown."""

        def answered(frame: Frame | None, _asked_ns: int) -> None:
            try:
                done(None if frame is None else asking.changed(frame))
            except RequestError:
                done(None)

        self._led(codes.CHANGE_STORE_GROUP, asking.changing(change), answered, process_fields(change))

    def _learn(self) -> None:
        """Query the list of controllers from the one that leads. A removed controller does not know of its removal."""

        def answered(answer: Frame | Failure) -> None:
            found = {} if isinstance(answer, Failure) else answer.fields() or {}
            if self._closed or found.get("isLeader") != "true":
                return
            peers = [endpoint_of(each.partition(":")[2]) for each in found.get("peers", "").split(";") if each]
            self._follow([each for each in peers if each is not None])

        self._links[self._leads].ask(Request(codes.GET_CONTROLLER_METADATA, {"group": self._group}), answered, ANSWER_MS)

    def _follow(self, peers: Sequence[tuple[str, int]]) -> None:
        """Use `peers` as controllers, and those of the settings, which may come back."""
        known = list(dict.fromkeys((*self._seeds, *peers)))[: len(self._seeds) + CONTROLLERS_MAX]
        if known == self._known:
            return
        before = dict(zip(self._known, self._links, strict=True))
        leads = self._known[self._leads]
        self._links = [before.pop(each) if each in before else self._link(each) for each in known]
        self._known = known
        self._leads = known.index(leads) if leads in known else 0
        for link in before.values():
            link.close("it is no controller any more")
        if self._kept is not None:
            try:
                self._kept.keep(peers)
            except OSError as error:
                log.warning("store group %s: where the controllers are cannot be written: %s", self._group, error)

    def _led(
        self, code: int, body: bytes, done: Callable[[Frame | None, int], None], fields: Mapping[str, str] | None = None
    ) -> None:
        """Send a request to the controller that leads, as last known; on the answer that it does not lead, to the next one.
        `done` gets the answer, and when the request was sent for the last time, monotonic ns."""
        left = _ROUNDS * len(self._links)

        def ask() -> None:
            at = self._leads
            request = Request(code, {"group": self._group, **(fields or {})}, body)
            self._links[at].ask(request, partial(answered, at, self._clock.monotonic_ns()), ANSWER_MS)

        def answered(at: int, asked_ns: int, answer: Frame | Failure) -> None:
            nonlocal left
            left -= 1
            self._answers(at, not isinstance(answer, Failure))
            if not isinstance(answer, Failure) and answer.code != codes.CONTROLLER_NOT_LEADER:
                done(answer, asked_ns)
                return
            if self._leads == at:
                self._leads = (at + 1) % len(self._links)
            if isinstance(answer, Failure) and code != codes.LIST_STORE_GROUPS:
                done(None, asked_ns)  # the change may have been made: the caller decides
            elif left <= 0 or self._closed:
                done(None, asked_ns)
            elif self._leads:
                ask()
            else:
                self._after(BEAT_MS, ask)  # no controller leads for now

        ask()

    def _after(self, wait_ms: int, step: Callable[[], None]) -> Timer:
        return self._clock.call_at(self._clock.monotonic_ns() + wait_ms * MILLISECOND_NS, step)

    def report_soon(self) -> None:
        """Send the next heartbeat at the end of this turn: an election waits for it."""
        if self._beats is not None:
            self._beats.cancel()
            self._beats = self._after(0, self._beat)

    def part(self, leader: int) -> None:
        """Report that this leader has ended its connection to this follower, at once; 0: the replica follows again, or another
        leader."""
        before, self._parted = self._parted, leader
        if leader and leader != before:
            self.report_soon()

    def _beat(self) -> None:
        if self._closed or self._listener is None:
            return
        self._beats = self._after(BEAT_MS, self._beat)
        word = self._listener.word()._replace(run=self._run, refuses=self.refuses, identity=self.identity, parted=self._parted)
        fields = asking.heartbeat(self._cluster, self._group, self._address, word, ALIVE_MS)
        for link in self._links:
            if not link.in_flight:
                link.ask(Request(codes.BROKER_HEARTBEAT, fields), lambda _: None, ANSWER_MS)

    def _poll(self) -> None:
        if self._closed:
            return
        self._polls = self._after(POLL_MS, self._poll)
        self._learn()
        self.ask(lambda group, _known: self._changed(group) if group is not None and not self._closed else None)

    def _changed(self, group: StoreGroup) -> None:
        if self._listener is not None:
            self._listener.changed(group)

    def _noticed(self, _name: str, frame: Frame, answer: AnswerBack) -> None:
        """A controller has sent a request: ROLE_CHANGED reports a new leader."""
        if frame.code != codes.ROLE_CHANGED:
            answer(codes.NOT_SUPPORTED, {}, b"", f"request type {frame.code} not supported")
            return
        answer(codes.SUCCESS, {}, b"", "")
        try:
            group = asking.notice(frame)
        except RequestError:
            return
        if group is not None and group.name == self._group and not self._closed:
            self._changed(group)
