"""Capabilities of the brokers of a cluster, as they report them: versions, flush, replication, and the resulting limits."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

from domain.errors import Failure
from domain.topic.topic import Durability
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.document import value_in
from gateway.link.request import Request
from gateway.usecase.waiting.fan_in import FanIn
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

ALWAYS_MISSING: Final = (
    "lite topics and priority topics",
    "retention, durability and deduplication by topic",
    "static topics",
    "latest values of delayed and transactional messages",
    "pulls of members through a gateway's own use cases: a group is POP there",
)
"""Features that no cluster supports behind this gateway."""
DENIED: Final = "has no permission"
"""Text in the remark of a broker that knows the user of a request, and does not allow the request."""
NEVER: Final = 0
IN_SYNC: Final = 1
ALWAYS: Final = 2
"""When a broker waits for a replica before it answers a send: while one is in sync, or at all times."""

_NEWEST: Final = (1 << 30,)
_DIGITS_MAX: Final = 15
_RUNTIME_MAX: Final = 128
"""Digits of a time, and characters of a running time, that are read."""
_RUNTIME_MS: Final = (86_400_000, 3_600_000, 60_000, 1_000)
_NUMBERS: Final = re.compile(r"\d[\d,]{0,14}")

log = logging.getLogger("headgate.rocketmq")


@dataclass(frozen=True, slots=True)
class BrokerCapabilities:
    """One broker.

    version   reported version; "": not reported
    settings  reported configuration; empty: not reported
    fault     reason why it does not answer, or is not the broker that the name servers report; "": none
    refuses   True: it does not know the access key of this node, and refuses all other requests too
    """

    broker: str
    version: str
    settings: Mapping[str, str]
    fault: str = ""
    refuses: bool = False
    silent: bool = False

    def on(self, name: str, absent: str) -> bool:
        """A setting that is true or false; `absent` when it is not reported."""
        return self.settings.get(name, absent) == "true"

    @property
    def copies(self) -> int:
        """NEVER, IN_SYNC or ALWAYS. From 5.0 on, a SYNC_MASTER waits for `inSyncReplicas` brokers, of which it is one.

        RocketMQ's CommitLog (asyncPutMessage, handleHA) and GroupTransferService; 4.9: CommitLog.submitReplicaRequest.
        """
        if self.settings.get("brokerRole") != "SYNC_MASTER":
            return NEVER
        if version_of(self.version) < (5,):
            return ALWAYS
        wanted, least = self._number("inSyncReplicas"), self._number("minInSyncReplicas")
        if self.on("enableControllerMode", "false"):
            if self.on("allAckInSyncStateSet", "false"):
                return ALWAYS if least > 1 else IN_SYNC
        elif self.on("enableSlaveActingMaster", "false") and self.on("enableAutoInSyncReplicas", "false"):
            return ALWAYS if least > 1 else IN_SYNC if wanted > 1 else NEVER
        return ALWAYS if wanted > 1 else NEVER

    def _number(self, name: str) -> int:
        """A setting that is a number of replicas; Apache's default 1 when it is not reported."""
        text = self.settings.get(name, "")
        return int(text) if text.isdigit() and len(text) < 10 else 1

    def kind(self) -> str:
        """Its mode of flush and replication, as text."""
        if not self.settings:
            return "not told"
        alone = self.settings.get("brokerRole") == "SYNC_MASTER" and self.copies == NEVER
        note = f" that waits for no replica since inSyncReplicas={self._number('inSyncReplicas')}" if alone else ""
        return f"{self.settings.get('flushDiskType')}, {self.settings.get('brokerRole')}{note}"


@dataclass(frozen=True, slots=True)
class ClusterCapabilities:
    """All brokers, by name."""

    cluster: str
    brokers: Sequence[BrokerCapabilities]

    @property
    def durability(self) -> Durability:
        """FLUSHED when every broker that reports its settings flushes before it answers a send; else PAGE."""
        reporting = [each for each in self.brokers if each.settings]
        flushed = bool(reporting) and all(each.settings.get("flushDiskType") == "SYNC_FLUSH" for each in reporting)
        return Durability.FLUSHED if flushed else Durability.PAGE

    @property
    def copies(self) -> int:
        """NEVER, IN_SYNC or ALWAYS: the weakest of the brokers that report their settings."""
        return min((each.copies for each in self.brokers if each.settings), default=NEVER)

    def promise(self) -> str:
        """Failures that an acknowledged message survives by the settings of the brokers, as a sentence for operators."""
        survives = "kill -9 and power loss" if self.durability is Durability.FLUSHED else "kill -9 of a broker"
        lost = "the loss of a broker with its disk"
        copied = {NEVER: "", IN_SYNC: f", and {lost} while a replica is in sync", ALWAYS: f", and {lost}"}[self.copies]
        kinds = sorted({each.kind() for each in self.brokers})
        return f"by the brokers' settings ({'; '.join(kinds)}): an acknowledged message survives {survives}{copied}"

    def refusal(self) -> str:
        """The reasons of all brokers, if all of them refuse the access key of this node; else ""."""
        if not self.brokers or not all(each.refuses for each in self.brokers):
            return ""
        return "; ".join(f"{each.broker}: {each.fault}" for each in self.brokers)

    def missing(self) -> list[str]:
        """The unsupported features, by name."""
        found: list[str] = []
        for what, name, since in (
            ("SQL92 filters (enablePropertyFilter)", "enablePropertyFilter", (4,)),
            ("delays in milliseconds (timerWheelEnable)", "timerWheelEnable", (5,)),
            ("recall of delayed messages (recallMessageEnable)", "recallMessageEnable", (5, 3, 2)),
        ):
            # A broker also reports settings of its file that it does not know.
            without = [
                each.broker
                for each in self.brokers
                if each.settings and (not each.on(name, "false") or version_of(each.version) < since)
            ]
            if without:
                found.append(f"{what} at {', '.join(without)}")
        old = [each.broker for each in self.brokers if version_of(each.version) < (5,)]
        if old:
            found.append(f"message-level consumption (POP) at {', '.join(old)}: older than 5.0")
        return [*found, *ALWAYS_MISSING]

    def lines(self) -> list[tuple[str, str]]:
        """(what, how it is) for the table that is printed at the start."""
        versions = ", ".join(f"{each.broker} {each.version or 'version not told'}" for each in self.brokers)
        out = [("cluster", f"{self.cluster}: {versions}"), ("durability", self.promise())]
        out += [("not to be had", each) for each in self.missing()]
        out += [("broker", f"{each.broker}: {each.fault}") for each in self.brokers if each.fault]
        return out


@final
class CapabilityFinding:
    """Query of all known brokers."""

    def __init__(self, servers: Brokers, cluster: ClusterMap) -> None:
        self._servers = servers
        self._cluster = cluster

    def start(self, done: Callable[[ClusterCapabilities], None]) -> None:
        """Start the query. `done` gets the capabilities, once each broker has answered or failed."""

        def asked(found: dict[tuple[str], BrokerCapabilities], _: Failure | None) -> None:
            clusters = sorted({each.cluster for each in self._cluster.brokers.values()})
            done(ClusterCapabilities(", ".join(clusters), [found[broker] for broker in sorted(found)]))

        FanIn(self._ask, asked).start((broker,) for broker in list(self._cluster.brokers))

    def _ask(self, broker: str, done: Callable[[BrokerCapabilities], None]) -> None:
        request = Request(codes.GET_BROKER_CONFIG, {"bname": broker})
        self._servers.examine(broker, request, lambda answer: self._configured(broker, answer, done))

    def _configured(self, broker: str, answer: Frame | Failure, done: Callable[[BrokerCapabilities], None]) -> None:
        if isinstance(answer, Failure):
            done(BrokerCapabilities(broker, "", {}, answer.text, silent=True))
            return
        if answer.code == codes.NO_PERMISSION:
            # Who is known, and may not read the settings, may be allowed to send and to receive.
            refuses = DENIED not in answer.remark
            done(BrokerCapabilities(broker, "", {}, f"it refuses this node ({answer.remark})", refuses))
            return
        settings = properties_from(answer.body) if answer.code == codes.SUCCESS else {}
        request = Request(codes.GET_RUNTIME_INFO, {"bname": broker})
        self._servers.examine(broker, request, lambda found: done(self._capabilities(broker, settings, found)))

    def _capabilities(self, broker: str, settings: Mapping[str, str], answer: Frame | Failure) -> BrokerCapabilities:
        table = {} if isinstance(answer, Failure) or answer.code != codes.SUCCESS else _runtime_table(answer.body)
        shown_ms = clock_from(table)
        if shown_ms:
            self._servers.clocks.heard(broker, shown_ms)
        listed = self._cluster.brokers.get(broker)
        fault = ""
        for name, wanted in (("brokerName", broker), ("brokerClusterName", listed.cluster if listed is not None else "")):
            said = settings.get(name, "")
            if said and wanted and said != wanted:
                fault = f"it says that its {name} is {said}, and the name servers say {wanted}"
                self._servers.refuse(broker, fault)
        if not fault and settings.get("brokerName") and self._servers.accept(broker):
            log.info("broker %s is what the name servers report again, and gets requests", broker)
        return BrokerCapabilities(broker, version_from(table), settings, fault)


def properties_from(body: bytes) -> dict[str, str]:
    """Java's properties text -> its values."""
    found: dict[str, str] = {}
    for line in body.decode("utf-8", "replace").splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith(("#", "!")):
            found[name.strip()] = value.strip()
    return found


def _runtime_table(body: bytes) -> Mapping[str, object]:
    """The KVTable of the runtime information; {} when the body is none."""
    found = value_in(body)
    table = found.get("table") if isinstance(found, dict) else None
    return table if isinstance(table, dict) else {}


def version_from(table: Mapping[str, object]) -> str:
    """The version in the runtime information, "" when it is not there."""
    version = table.get("brokerVersionDesc")
    return version if isinstance(version, str) else ""


def clock_from(table: Mapping[str, object]) -> int:
    """The clock of the broker in the runtime information, in milliseconds since 1970, late by less than 1 s; 0: it is absent.

    It is the time of its start, and how long ago that was: `[ 0 days, 1 hours, 2 minutes, 3 seconds ]`, or `1000 ms`.
    """
    begun, past = table.get("bootTimestamp"), table.get("runtime")
    if not isinstance(begun, str) or not isinstance(past, str) or not begun.isdecimal() or len(begun) > _DIGITS_MAX:
        return 0
    numbers = [int(each.replace(",", "")) for each in _NUMBERS.findall(past[:_RUNTIME_MAX])]
    if len(numbers) == len(_RUNTIME_MS):
        return int(begun) + sum(number * each for number, each in zip(numbers, _RUNTIME_MS, strict=True))
    return int(begun) + numbers[0] if len(numbers) == 1 and past.endswith(" ms") else 0


def version_of(text: str) -> tuple[int, ...]:
    """`V5_3_2` -> (5, 3, 2); for anything else a version above all."""
    parts = text.removeprefix("V").split("_")
    return tuple([int(each) for each in parts]) if all(each.isdigit() and len(each) < 6 for each in parts) else _NEWEST
