"""Leadership moves away from replicas that are slow: the judge's verdicts become elections of the leading controller."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import Final, final

from controller.groups.election import electorate
from controller.groups.heartbeats import Heartbeats
from controller.groups.replica_reports import informed, refused
from controller.member.elections import RETURN_MS
from controller.member.member import ControllerMember
from controller.slow_replicas.ejections import Place
from controller.slow_replicas.ports import Held, Move, PassedOver, ReplicaJudge, Returned, Verdict, excess_text
from controller.slow_replicas.record import FiguresRecord
from domain.controller.answer import GroupAnswer
from domain.controller.change import ElectLeader
from domain.controller.group import PRIORITY_LAST, StoreGroup
from domain.controller.health import Fitness, ReplicaFigures, Standing
from domain.limits import MILLISECOND_NS
from domain.ports import Clock, Timer

POLL_MS: Final = 1_000
"""Time between two polls of the figures of all groups."""
log = logging.getLogger("headgate.controller")


@final
class GreyMoves:
    """Moves of leaderships away from slow replicas. Every controller gets the figures, so that a new leader has them; only the
    leading one decides.

    moves         moves carried out since the start
    passed_over   followers passed over since the start
    held          number of withheld moves; the log has the reasons
    """

    def __init__(
        self, member: ControllerMember, heartbeats: Heartbeats, clock: Clock, judge: ReplicaJudge, record: FiguresRecord
    ) -> None:
        self.moves = 0
        self.passed_over = 0
        self.held = 0
        self._member = member
        self._heartbeats = heartbeats
        self._clock = clock
        self._judge = judge
        self._record = record
        self._newest: dict[Place, ReplicaFigures] = {}
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin to poll."""
        self._timer = self._clock.call_at(self._clock.monotonic_ns() + POLL_MS * MILLISECOND_NS, self._poll)

    def stop(self) -> None:
        """Stop polling."""
        if self._timer is not None:
            self._timer.cancel()
        self._record.close()

    def heard(self, group: str, replica: int, figures: ReplicaFigures) -> None:
        """Take the figures of a replica. Those of unknown groups are ignored."""
        known = self._member.groups.group(group)
        if known is None or known.replica(replica) is None:
            return
        now_ms, leads = self._now_ms(), known.leader == replica
        self._newest[group, replica] = figures
        self._judge.heard(group, replica, leads, figures, now_ms)
        if self._member.leads:
            self._record.heard(group, replica, leads, figures, now_ms)

    def preferring(self, election: ElectLeader) -> ElectLeader:
        """Election with the replicas that should not lead at the end of its preferences."""
        live = tuple(
            replace(each, priority=PRIORITY_LAST + fitness)
            if (fitness := self._judge.standing(election.group, each.id).fitness) is not Fitness.FIT
            else each
            for each in election.live
        )
        return replace(election, live=live)

    def is_early(self, election: ElectLeader, group: StoreGroup, now_ms: int) -> bool:
        """True when a member that is fitter than all that may win now was lost a moment ago: it may return at once.

        Connections that break together, such as all those of this controller, end and return one by one.
        """
        best = min((self._fitness(group, each.id) for each in electorate(group, election.live)), default=Fitness.FIT)
        return any(
            self._heartbeats.is_just_lost(group.name, each.id, RETURN_MS, now_ms)
            for each in group.members
            if self._fitness(group, each.id) < best
        )

    def _fitness(self, group: StoreGroup, replica: int) -> Fitness:
        return self._judge.standing(group.name, replica).fitness

    def standing(self, group: str, replica: int) -> Standing:
        """Fitness of a replica to lead."""
        return self._judge.standing(group, replica)

    def figures(self, group: str, replica: int) -> ReplicaFigures | None:
        """Last reported figures of a replica; None: it reports none."""
        return self._newest.get((group, replica))

    def replicas(self) -> dict[Place, tuple[ReplicaFigures, Standing]]:
        """Last reported figures of all replicas, and their fitness to lead."""
        return {place: (figures, self._judge.standing(*place)) for place, figures in self._newest.items()}

    @property
    def clocks_off(self) -> int:
        """Replicas with deviating clocks."""
        return sum(self.standing(*place).fitness is Fitness.CLOCK_OFF for place in self._newest)

    @property
    def out(self) -> int:
        """Replicas that are passed over because they were slow."""
        return self._judge.out()

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // MILLISECOND_NS

    def _poll(self) -> None:
        self.start()
        now_ms, wall_ms = self._now_ms(), self._clock.wall_ms()
        self._judge.ticked(wall_ms, now_ms)
        if not self._member.leads:
            return
        groups = list(self._member.groups)
        places = {(each.name, replica.id) for each in groups for replica in each.replicas}
        self._newest = {place: each for place, each in self._newest.items() if place in places}
        alive = [
            (each.name, replica.id)
            for each in groups
            for replica in each.replicas
            if self._heartbeats.is_alive(each.name, replica.id, now_ms)
        ]
        verdicts = self._judge.poll(groups, alive, now_ms)
        self._record.looked(groups, verdicts, now_ms, wall_ms)
        self._record.flush()
        for verdict in verdicts:
            self._carry_out(verdict, now_ms)

    def _carry_out(self, verdict: Verdict, now_ms: int) -> None:
        if isinstance(verdict, Move):
            self._move(verdict, now_ms)
        elif isinstance(verdict, PassedOver):
            self.passed_over += 1
            log.warning(
                "store group %s: replica %s follows and is slow (%s): it is passed over for %s s, and its leader need not wait "
                "for it", verdict.group, verdict.replica, excess_text(verdict.excesses), verdict.out_ms // 1_000,
            )  # fmt: skip
        elif isinstance(verdict, Held):
            self.held += 1
            log.warning(
                "store group %s: replica %s is out of the ordinary (%s), and nothing is changed: %s", verdict.group,
                verdict.source, excess_text(verdict.excesses), verdict.reason,
            )  # fmt: skip
        elif isinstance(verdict, Returned):
            log.info("store group %s: replica %s is as fast as the others again", verdict.group, verdict.replica)
        elif verdict.excesses:
            log.warning(
                "store group %s: the clock of replica %s is off (%s): it does not lead while another can", verdict.group,
                verdict.replica, excess_text(verdict.excesses),
            )  # fmt: skip
        else:
            log.info("store group %s: the clock of replica %s is right again", verdict.group, verdict.replica)

    def _move(self, move: Move, now_ms: int) -> None:
        group = self._member.groups.group(move.group)
        if group is None:
            return
        log.warning(
            "store group %s: replica %s leads and is out of the ordinary (%s): replica %s should lead; %s is passed over for "
            "%s s", move.group, move.source, excess_text(move.excesses), move.target, move.source, move.out_ms // 1_000,
        )  # fmt: skip
        election = ElectLeader(move.group, designated=move.target, leader_epoch=group.leader_epoch)
        refusal = refused(election, group, self._heartbeats, now_ms)
        if refusal is not None:
            self._moved(move, GroupAnswer(refusal, group))
            return
        self._member.change(informed(election, group, self._heartbeats, now_ms), partial(self._moved, move))

    def _moved(self, move: Move, answer: GroupAnswer | None) -> None:
        is_done = answer is not None and answer.refusal is None
        self.moves += is_done
        self._judge.moved(move, is_done, self._now_ms())
        if not is_done:
            why = "its fate is not known" if answer is None or answer.refusal is None else answer.refusal.value
            log.warning("store group %s: leadership could not be moved to replica %s: %s", move.group, move.target, why)
