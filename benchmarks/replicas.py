"""Store groups: replicas of Headgate, and brokers of Apache RocketMQ in controller mode, with three controllers each.

with replicas("headgate", folder, 3, "replicated") as group:
    group.leader().kill(); group.until_in_sync(2)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, final

from benchmarks.apache_servers import STARTUPS, java
from benchmarks.callgrind import Callgrind, slowed
from benchmarks.process import Process, free_run
from benchmarks.servers import GENERATOR_CONNECTIONS, ROOT, Server, port_options
from gateway.client.answer import ClientError
from gateway.client.link import Link
from gateway.node.protocols import installed

CONTROLLERS = 3
START_S = 120.0
COUNTED_START_S = 900.0
NAME = "broker-a"
LEVELS = {"headgate": ("replicated+flushed", "replicated"), "apache": ("SYNC_FLUSH", "ASYNC_FLUSH")}
"""What is compared, in this order. A follower of Apache's says what it has written: it never waits for a sync."""
_GET_METADATA_INFO = 1005
_GET_SYNC_STATE_DATA = 1006
_MAKE_TOPIC = 17


class Replica:
    """One replica, which can be killed and started again on its ports.

    ports     where clients send, by protocol
    known     its address as controllers tell it
    root      checkout of its modules
    process   None: it does not run
    """

    def __init__(self, command: list[str], folder: Path, ports: dict[str, int], known: str, root: Path = ROOT) -> None:
        self._command = command
        self.folder = folder
        self.ports = ports
        self.known = known
        self.root = root
        self.process: Process | None = None

    @property
    def port(self) -> int:
        """Where clients send by remoting."""
        return self.ports["remoting"]

    def start(self, processor: int | None = None) -> Process:
        """Start it, on one processor only if that is given."""
        pinned = [] if processor is None else ["taskset", "-c", str(processor)]
        self.process = Process([*pinned, *self._command], self.folder, {"PYTHONPATH": str(self.root)})
        return self.process

    def kill(self) -> None:
        """SIGKILL, and wait for its end."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.stop()


class State(NamedTuple):
    """What the controllers say: the address of the leader, and how many replicas are in sync."""

    leader: str
    in_sync: int


class ReplicaGroup:
    """A store group with its controllers.

    side          who has made it
    start_s       seconds that its start may take
    """

    def __init__(self, side: str, replicas: list[Replica], controllers: list[Process], addresses: list[str]) -> None:
        """`addresses`: host:port of the controllers."""
        self.side = side
        self.start_s = START_S
        self.replicas = replicas
        self.controllers = controllers
        self._addresses = addresses

    def start(self) -> None:
        """Start the replicas, and wait until they are in sync and the leader takes sends. Stops all when they do not."""
        try:
            for each in self.replicas:
                each.start()
            self.until_in_sync(len(self.replicas))
            self._until(self._serves, "the leader takes sends")
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Kill all processes: what is stored is not needed any more."""
        for each in self.replicas:
            each.kill()
        for process in self.controllers:
            process.kill()
            process.stop()

    @property
    def stores(self) -> list[Process]:
        """The processes of the replicas that run."""
        return [each.process for each in self.replicas if each.process is not None]

    def leader(self) -> Replica:
        """The replica that leads, by the word of the controllers."""
        state = self.state()
        return next(each for each in self.replicas if state is not None and each.known == state.leader)

    def server(self) -> Server:
        """The leader as the generator reaches it; the processes are those of all replicas."""
        return Server(self.side, dict(self.leader().ports), self.stores)

    def state(self) -> State | None:
        """How the group is; None: no controller says it."""
        for address in self._addresses:
            with suppress(OSError, ClientError, RuntimeError, KeyError, ValueError):
                found = dict(ask(address, _GET_METADATA_INFO, {}, b"")[0])["controllerLeaderAddress"]
                _, body = ask(found or address, _GET_SYNC_STATE_DATA, {}, json.dumps([NAME]).encode())
                notified = json.loads(body)["replicasInfoTable"][NAME]
                return State(notified["masterAddress"] or "", len(notified["inSyncReplicas"]))
        return None

    def until_in_sync(self, count: int) -> None:
        """Wait until so many replicas are in sync, and one of those that run leads."""

        def holds() -> bool:
            state = self.state()
            running = [each.known for each in self.replicas if each.process is not None]
            return state is not None and state.in_sync == count and state.leader in running

        self._until(holds, f"{count} replicas are in sync")

    def make_topic(self, topic: str, level: str) -> None:
        """Make a topic of four queues; `level` is its durability where topics have one."""
        more = f",+durability={level}" if self.side == "headgate" else ""
        fields = {
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", "attributes": f"+message.type=NORMAL{more}",
        }  # fmt: skip
        ask(f"127.0.0.1:{self.leader().port}", _MAKE_TOPIC, fields, b"")

    def _serves(self) -> bool:
        with suppress(OSError, ClientError, RuntimeError):
            self.make_topic("begin", "flushed")
            return True
        return False

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + self.start_s
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"it does not come true that {what}: {self.state()}")
            time.sleep(0.05)


def replicas(side: str, folder: Path, count: int, level: str) -> ReplicaGroup:
    """The controllers, which run, and replicas that do not run yet. `level` is the flush type of Apache's brokers."""
    return _headgate(folder, count) if side == "headgate" else _apache(folder, count, level)


def store_group(
    folder: Path, durability: str, count: int, root: Path = ROOT, python: str = sys.executable, counting: bool = False
) -> Server:
    """Start a store group of the checkout at `root` as one server, which clients reach at its leader.

    Its processes are all replicas. `counting`: their instructions are counted together, and all clocks are slowed down.
    """
    counters = [Callgrind(folder / f"replica{number}") for number in range(count)] if counting else []
    run = [python, "-m", "gateway", "run", "--durability", durability]
    group = _headgate(folder, count, run, root, counters)
    if counting:
        group.start_s = COUNTED_START_S
    group.start()
    server = group.server()
    server.processes = [*group.controllers, *group.stores]
    if counting:
        for counter, process in zip(counters, group.stores, strict=True):
            counter.pid = process.pid
        server.counter = AllCounters(counters)
    return server


@final
class AllCounters:
    """Counts the instructions of several processes together."""

    def __init__(self, counters: Sequence[Callgrind]) -> None:
        self._counters = counters

    def begin(self) -> None:
        """Count from now on."""
        for each in self._counters:
            each.begin()

    def end(self) -> float:
        """Stop counting. Returns the instructions since `begin`."""
        return sum(each.end() for each in self._counters)


def _headgate(
    folder: Path, count: int, run: Sequence[str] = (sys.executable, "-m", "gateway", "run"), root: Path = ROOT,
    counters: Sequence[Callgrind] = (),
) -> ReplicaGroup:  # fmt: skip
    ports = [_ports() for _ in range(1 if counters else CONTROLLERS)]
    addresses = [f"127.0.0.1:{each['controller']}" for each in ports]
    notified = {"PYTHONPATH": str(root), "HEADGATE_CONTROLLER_PEERS": json.dumps(addresses), **(slowed() if counters else {})}
    controllers = []
    for number, each in enumerate(ports):
        own = folder / f"controller{number}"
        controllers.append(
            Process([*run, "--roles", "controller", "--data", str(own / "data"), *port_options(each)], own, notified)
        )
    environment = [
        f"HEADGATE_REPLICATION_CONTROLLERS={json.dumps(addresses)}",
        f"HEADGATE_LIMITS_CONNECTIONS_PER_ADDRESS={GENERATOR_CONNECTIONS}",
    ]
    found = []
    for number in range(count):
        each, own = _ports(), folder / f"replica{number}"
        under = counters[number].under if counters else []
        roles = ["--roles", "gateway,store", "--data", str(own / "data")]
        command = ["env", *environment, *under, *run, *roles, *port_options(each)]
        found.append(Replica(command, own, each, f"127.0.0.1:{each['replication']}", root))
    return ReplicaGroup("headgate", found, controllers, addresses)


def _apache(folder: Path, count: int, flush: str) -> ReplicaGroup:
    names, peers = [free_run() for _ in range(CONTROLLERS)], [free_run() for _ in range(CONTROLLERS)]
    addresses = [f"127.0.0.1:{port}" for port in peers]
    controllers = []
    for number, port in enumerate(names):
        own = folder / f"names{number}"
        settings = {
            "listenPort": port, "enableControllerInNamesrv": "true", "controllerDLegerGroup": "controllers",
            "controllerDLegerPeers": ";".join(f"n{at}-127.0.0.1:{peer}" for at, peer in enumerate(peers)),
            "controllerDLegerSelfId": f"n{number}", "controllerStorePath": own / "controller",
        }  # fmt: skip
        command = _command(own, "namesrv.NamesrvStartup", settings, "256m", "512m")
        controllers.append(Process(command, own))
    found = []
    for number in range(count):
        port, own = free_run(), folder / f"broker{number}"
        settings = {
            "listenPort": port, "haListenPort": port + 1, "brokerClusterName": "DefaultCluster", "brokerName": NAME,
            "brokerId": -1, "brokerRole": "SLAVE", "brokerIP1": "127.0.0.1", "storePathRootDir": own / "store",
            "storePathCommitLog": own / "store" / "commitlog", "flushDiskType": flush, "autoCreateTopicEnable": "true",
            "mappedFileSizeCommitLog": 268_435_456, "diskMaxUsedSpaceRatio": 99, "enableControllerMode": "true",
            "allAckInSyncStateSet": "true", "controllerAddr": ";".join(addresses),
            "namesrvAddr": ";".join(f"127.0.0.1:{each}" for each in names),
        }  # fmt: skip
        found.append(
            Replica(_command(own, "broker.BrokerStartup", settings, "1g", "2g"), own, {"remoting": port}, f"127.0.0.1:{port}")
        )
    return ReplicaGroup("apache", found, controllers, addresses)


def _command(folder: Path, main: str, settings: dict[str, object], *heap: str) -> list[str]:
    folder.mkdir(parents=True)
    conf = folder / "server.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return [*java(folder, *heap), f"{STARTUPS}{main}", "-c", str(conf)]


def ask(address: str, code: int, fields: dict[str, str], body: bytes) -> tuple[dict[str, str], bytes]:
    """Ext fields and body of an answer. Raises RuntimeError for a refusal."""
    link = Link(address, 5)
    try:
        (reply,) = link.ask([(code, fields, body)])
    finally:
        link.close()
    if reply.code != 0:
        raise RuntimeError(f"{address} answers {reply.code} to {code}: {reply.remark}")
    return dict(reply.fields() or {}), bytes(reply.body)


def _ports() -> dict[str, int]:
    return {name: free_run() for name in installed().ports}


def pin(process: Process, processor: int) -> None:
    """Have a process that runs, with all its threads, run on one processor."""
    subprocess.run(["taskset", "-apc", str(processor), str(process.pid)], check=True, capture_output=True)
