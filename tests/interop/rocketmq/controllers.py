"""Apache RocketMQ 5.5.0 in controller mode: three name servers with a controller each, and two groups of two brokers.

A message is acknowledged when the whole SyncStateSet of its group has it (`allAckInSyncStateSet`): it outlives its master.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.process import free_run
from tests.interop.rocketmq.apache import CLUSTER, ApacheCluster, JavaServer, eventually

SYNC_S = 240.0
"""A broker that comes back under load catches up before it is in its SyncStateSet again, on as few processors as there are."""
ELECTION_S = 120.0
GROUPS = ("broker-a", "broker-b")
_GET_METADATA_INFO = 1005
_GET_SYNC_STATE_DATA = 1006


class ControllerCluster(ApacheCluster):
    """The cluster. `brokers` has the master of each group, as it was when `until_in_sync` was called last."""

    def __init__(self, folder: Path, controllers: Sequence[str] = ()) -> None:
        """`controllers`: addresses of other controllers than Apache's; there is one name server then."""
        self._controllers = list(controllers)
        self.nameservers = (
            [JavaServer("n0", folder / "n0", free_run(), "namesrv.NamesrvStartup", {})]
            if controllers
            else self._with_controllers(folder)
        )
        self.nameserver = self.nameservers[0]
        shared: dict[str, object] = {
            "brokerId": -1, "brokerRole": "SLAVE", "enableControllerMode": "true", "allAckInSyncStateSet": "true",
            "controllerAddr": ";".join(self._controllers), "namesrvAddr": self.addresses,
        }  # fmt: skip
        self.members = {name: [self._member(name, number, folder, shared) for number in range(2)] for name in GROUPS}
        self.brokers = {}

    def _with_controllers(self, folder: Path) -> list[JavaServer]:
        """Name servers with a controller each."""
        ports, peers = [free_run() for _ in range(3)], [free_run() for _ in range(3)]
        told = ";".join(f"n{number}-127.0.0.1:{port}" for number, port in enumerate(peers))
        self._controllers = [f"127.0.0.1:{port}" for port in peers]
        return [
            JavaServer(
                f"n{number}", folder / f"n{number}", port, "namesrv.NamesrvStartup",
                {
                    "enableControllerInNamesrv": "true", "controllerDLegerGroup": "controllers", "controllerDLegerPeers": told,
                    "controllerDLegerSelfId": f"n{number}", "controllerStorePath": folder / f"n{number}" / "controller",
                },
            )
            for number, port in enumerate(ports)
        ]  # fmt: skip

    @property
    def addresses(self) -> str:
        """host:port of all name servers, between semicolons."""
        return ";".join(each.address for each in self.nameservers)

    def _member(self, name: str, number: int, folder: Path, shared: dict[str, object]) -> JavaServer:
        port = free_run()
        own = folder / f"{name}-{number}"
        # These are killed: their timers are flushed more often than those of others.
        settings = {**self.broker_settings(name, own), **shared, "timerFlushIntervalMs": 10_000, "haListenPort": port + 1}
        return JavaServer(f"{name}-{number}", own, port, "broker.BrokerStartup", settings)

    def start(self) -> None:
        """Start all of it, and wait until each group has a master and both of its brokers in sync."""
        for each in self.nameservers:
            each.spawn()
        for each in self.nameservers:
            each.ready()
        eventually(lambda: self._leader() is not None, "no controller leads")
        for group in self.members.values():
            for each in group:
                each.spawn()
        for group in self.members.values():
            for each in group:
                each.ready()
        self.until_in_sync()

    def until_in_sync(self) -> None:
        """Wait until both brokers of each group are in its SyncStateSet, and the name servers know both masters."""

        def complete() -> bool:
            masters = {name: self._state(name) for name in GROUPS}
            if any(state is None or state[1] != 2 for state in masters.values()):
                return False
            found = {name: state[0] for name, state in masters.items() if state is not None}
            self.brokers = {
                name: next(each for each in self.members[name] if each.address == address) for name, address in found.items()
            }
            return all(self._routes(each) == found for each in self.nameservers)

        eventually(complete, lambda: f"the groups are not in sync after {SYNC_S:g} s:\n{self.view()}", SYNC_S)

    def kill_master(self, group: str) -> JavaServer:
        """SIGKILL the master of a group. Returns it, to be started again."""
        master = self.brokers[group]
        master.kill()
        return master

    def until_elected(self, group: str, dead: JavaServer) -> None:
        """Wait until the controller names another master of a group than the one that was killed."""

        def elected() -> bool:
            state = self._state(group)
            return state is not None and state[0] not in ("", dead.address)

        eventually(elected, lambda: f"{group} has no other master after {ELECTION_S:g} s:\n{self.view()}", ELECTION_S)

    def view(self) -> str:
        """What the controller says of each group, as `mqadmin getSyncStateSet`, and the end of each broker's log, as text."""
        leader, texts = self._leader(), []
        texts.append(f"the controller that leads: {leader}")
        if leader is not None:
            with suppress(OSError):
                reply = self.reply(leader, _GET_SYNC_STATE_DATA, body=json.dumps(GROUPS).encode())
                texts.append(reply.body.decode(errors="replace"))
        texts += [f"{each.name} at {each.address}: {each.text()[-500:]}" for group in self.members.values() for each in group]
        return "\n".join(texts)

    def stop(self) -> None:
        """Stop all of it."""
        for group in self.members.values():
            for each in group:
                each.stop()
        for each in self.nameservers:
            each.stop()

    def _leader(self) -> str | None:
        """host:port of the controller that leads; None: there is none."""
        for address in self._controllers:
            with suppress(OSError):
                reply = self.reply(address, _GET_METADATA_INFO)
                leader = (reply.fields() or {}).get("controllerLeaderAddress", "")
                if reply.code == 0 and leader:
                    return leader
        return None

    def _state(self, group: str) -> tuple[str, int] | None:
        """(address of the master, brokers in sync) by the controller; None: it does not say."""
        leader = self._leader()
        if leader is None:
            return None
        with suppress(OSError, KeyError):
            reply = self.reply(leader, _GET_SYNC_STATE_DATA, body=json.dumps([group]).encode())
            if reply.code == 0:
                found = json.loads(reply.body)["replicasInfoTable"][group]
                return found["masterAddress"], len(found["inSyncReplicas"])
        return None

    def _routes(self, nameserver: JavaServer) -> dict[str, str]:
        """Group -> address of its master, by a name server."""
        with suppress(OSError, ValueError):
            reply = self.route(nameserver, CLUSTER)
            if reply.code == 0:
                brokers = json.loads(reply.body)["brokerDatas"]
                return {each["brokerName"]: each["brokerAddrs"].get("0", "") for each in brokers}
        return {}
