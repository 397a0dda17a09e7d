"""A remote replica that lacks records is promoted, since the place of the others is lost: what it loses was said before.

The remote replica is behind: nobody reaches it, the way to it is slow, or it stands still. Meanwhile leaders change, and
messages are acknowledged. Then all others are gone, and an operator lets it lead, as headgate cluster promote does. They come
back later, with their disks or with empty ones.
"""

from __future__ import annotations

import random
import re
from typing import Final, final

from domain.controller.answer import GroupRefusal
from domain.controller.change import SetMinInSync
from domain.controller.group import StoreGroup
from domain.errors import ConfigError
from gateway.cluster.operator import orders
from tests.simulation.cluster.cluster import Cluster
from tests.simulation.cluster.losses import END, STORES, WAIT_MS, begin, send, served
from tests.simulation.cluster.operators import GONE_MS, OperatorTool, change_group
from tests.simulation.cluster.store_node import StoreNode, log_part
from tests.simulation.kit.bugs import HistoryError
from tests.simulation.kit.network import between

PLACE: Final = "frankfurt"
BEATS_MS: Final = 1_000
"""Time in which heartbeats have said how far all logs go."""
_MORE: Final = re.compile(r"([\d,]+) bytes more")


@final
class PromotionScene:
    """One cluster.

    sent      bodies of the acknowledged messages, in their order
    lost      how many of them the remote replica lacked
    declared  bytes that the operator was told of, at least
    """

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed, STORES)
        self.sent: list[str] = []
        self.lost = 0
        self.declared = 0
        self._chance: random.Random = self.cluster.chance
        self._said: list[str] = []

    def run(self) -> PromotionScene:
        """Run. Raises HistoryError."""
        cluster = self.cluster
        begin(cluster)
        self._send(self._chance.randrange(3, 12))
        remote = cluster.groups[0].add_learner(PLACE)
        cluster.clock.run_until(lambda: remote.log_end >= served(cluster, STORES).log_end, 60_000)
        self._chance.choice([self._part, self._slow, self._stand_still])(remote)
        self._trouble(remote)
        cluster.clock.run_for(BEATS_MS)
        places = [each for each in cluster.stores if each is not remote]
        for each in self._chance.sample(places, STORES):
            each.end("is gone, with its place")
        self._put_right(remote)
        cluster.clock.run_for(GONE_MS)
        self._promote(remote)
        self._judge(remote, places)
        return self

    # The remote replica falls behind

    def _part(self, remote: StoreNode) -> None:
        hosts = [each.host for each in self.cluster.stores if each is not remote]
        self.cluster.net.blocked |= between([remote.host], hosts)

    def _slow(self, remote: StoreNode) -> None:
        self.cluster.net.slow[remote.host] = self._chance.randrange(100, 900)

    def _stand_still(self, remote: StoreNode) -> None:
        remote.end("stands still")

    def _put_right(self, remote: StoreNode) -> None:
        self.cluster.net.heal()
        if not remote.running:
            remote.start()

    def _trouble(self, remote: StoreNode) -> None:
        """Messages are acknowledged, while leaders change, and the remote replica is started again."""
        for _ in range(self._chance.randrange(1, 4)):
            self._send(self._chance.randrange(2, 9))
            if self._chance.random() < 0.5:
                leader = served(self.cluster, STORES)
                leader.end("is killed")
                served(self.cluster, STORES - 1)
                self._send(self._chance.randrange(1, 5))
                leader.start()
                served(self.cluster, STORES)
            elif remote.running and self._chance.random() < 0.5:
                remote.end("is killed")
                remote.start()

    # The operator

    def _promote(self, remote: StoreNode) -> None:
        """The figures are said, and nothing is changed; then it is asked for again. While a member is there it is refused."""
        assert remote.life is not None
        group, number = self._group(), remote.life.own
        self._refused(number, False, "give --accept-loss")
        if self._chance.random() < 0.5:
            member = self._chance.choice([each for each in self.cluster.stores if each is not remote])
            member.start()
            self.cluster.clock.run_for(BEATS_MS)
            self._refused(number, True, GroupRefusal.MEMBER_COMES_BACK.value)
            member.end("is gone again")
            self.cluster.clock.run_for(GONE_MS)
        if self._group().leader == number or remote.led is not None:
            raise HistoryError("a refused promotion was made")
        self._said.clear()
        self.cluster.checkers.given_up_to = remote
        own = remote.log_end
        self._asked(number, True)
        found = [int(each.replace(",", "")) for line in self._said for each in _MORE.findall(line)]
        self.declared = max(found, default=0)
        if not any(f"end of log {own:,}" in line for line in self._said):
            raise HistoryError(f"the log of the remote replica ends at {own}: {self._said}")
        if not any(f"replica {number} is in {PLACE}" in line for line in self._said):
            raise HistoryError(f"what the remote replica says is not shown: {self._said}")
        remote.learner, remote.remote = False, ""
        served(self.cluster, 1)
        if self._group().leader_epoch <= group.leader_epoch:
            raise HistoryError(f"the epoch of {self._group()} is not above that of {group}")

    def _asked(self, number: int, accept: bool) -> None:
        name = self.cluster.groups[0].name
        orders.promote(OperatorTool(self.cluster), name, number, accept, lambda: name, self._said.append)

    def _refused(self, number: int, accept: bool, why: str) -> None:
        try:
            self._asked(number, accept)
        except ConfigError as error:
            if why in str(error):
                return
            raise HistoryError(f"refused for another reason than {why}: {error}") from None
        raise HistoryError(f"not refused: {why}")

    # What is true afterwards

    def _judge(self, remote: StoreNode, places: list[StoreNode]) -> None:
        """What is lost is the end of what was acknowledged, no more than was said. All goes on, and logs become equal."""
        cluster, log = self.cluster, log_part(remote.disk, 0, END)
        kept = [each.encode() in log for each in self.sent]
        self.lost = kept.count(False)
        if False in kept and any(kept[kept.index(False) :]):
            raise HistoryError(f"of the acknowledged messages some in between are lost: {kept}")
        if cluster.checkers.given_up > self.declared:
            raise HistoryError(f"{cluster.checkers.given_up} bytes are lost, and {self.declared} were said: {self._said}")
        before = [each for each, has in zip(self.sent, kept, strict=True) if has]
        change_group(cluster, SetMinInSync(cluster.groups[0].name, 1))
        cluster.clock.run_for(BEATS_MS)
        self.sent = before
        self._send(3)
        for each in places:
            if self._chance.random() < 0.3:
                each.replace_disk()
            each.start()
            cluster.clock.run_for(self._chance.uniform(10, 1_500))
        leader = served(cluster, len(places) + 1)
        self._send(3)
        cluster.clock.run_for(WAIT_MS)
        log = log_part(leader.disk, 0, END)
        if lost := [each for each in self.sent if each.encode() not in log]:
            raise HistoryError(f"lost after the promotion: {lost[:3]}")
        for each in cluster.stores:
            if log_part(each.disk, 0, END) != log:
                raise HistoryError(f"the log of {each.name} differs from that of {leader.name}")

    def _group(self) -> StoreGroup:
        found = self.cluster.checkers.group()
        assert found is not None
        return found

    def _send(self, count: int) -> None:
        for _ in range(count):
            body = f"promoted-{len(self.sent)}-{self.cluster.clock.monotonic_ns()};"
            send(self.cluster, body)
            self.sent.append(body)


def run(seed: int) -> PromotionScene:
    """Run a seed."""
    return PromotionScene(seed).run()
