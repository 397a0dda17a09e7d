"""Apache RocketMQ, alone, behind its own proxies and behind gateways of Headgate, on free ports with an empty data folder."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from benchmarks.process import Process, free_port, free_run
from benchmarks.servers import ROOT, AbsentError, Server, port_options, up
from gateway.node.protocols import installed

APACHE_JARS = ROOT / ".deps" / "apache"
STARTUPS = "org.apache.rocketmq."


def apache(folder: Path, durability: str) -> Server:
    """Start Apache RocketMQ: a name server, and a broker with the gRPC proxy in the same JVM (its LOCAL mode)."""
    server = _name_server(folder, durability)
    _set_proxy(folder, server.ports, "LOCAL")
    both = [f"{STARTUPS}proxy.ProxyStartup", "-pm", "local", "-bc", f"{folder}/bk.conf", *_where(server)]
    server.processes.append(Process([*java(folder), *both], folder / "bk", {"RMQ_PROXY_HOME": str(folder)}))
    return up(server, server.processes[1], "remoting", "grpc")


def apache_proxy(folder: Path, durability: str) -> Server:
    """Start Apache RocketMQ: a name server, a broker, and a proxy in CLUSTER mode before it, each in a JVM of its own.

    `remoting` is the broker's port, on which topics are made; `proxy` is the proxy's.
    """
    return _add_proxy(_broker(folder, durability), folder)


def two_apache_proxies(folder: Path, durability: str) -> Server:
    """As `apache_proxy`, with two proxies."""
    return _add_proxy(apache_proxy(folder, durability), folder)


def gateway_and_apache(folder: Path, durability: str) -> Server:
    """Start Apache's name server and broker, and a gateway of Headgate before them.

    `remoting` is the broker's port, as in `apache_proxy`; `proxy` is the port of the gateway at which the broker is served.
    """
    return _add_gateway(_broker(folder / "apache", durability), folder, durability)


def two_gateways_and_apache(folder: Path, durability: str) -> Server:
    """As `gateway_and_apache`, with two gateways."""
    return _add_gateway(gateway_and_apache(folder, durability), folder, durability)


def _name_server(folder: Path, durability: str) -> Server:
    """A name server that runs, and the files of a broker."""
    command = [*java(folder), f"{STARTUPS}namesrv.NamesrvStartup", "-c", f"{folder}/ns.conf"]
    ports = {"nameserver": free_port(), "remoting": free_run(), "grpc": free_port(), "proxy": free_port()}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "ns.conf").write_text(f"listenPort={ports['nameserver']}\n")
    flush = "SYNC_FLUSH" if durability == "flushed" else "ASYNC_FLUSH"
    (folder / "bk.conf").write_text(
        f"brokerClusterName=DefaultCluster\nbrokerName=broker-a\nbrokerId=0\nbrokerIP1=127.0.0.1\n"
        f"namesrvAddr=127.0.0.1:{ports['nameserver']}\nlistenPort={ports['remoting']}\nstorePathRootDir={folder}/store\n"
        f"flushDiskType={flush}\nautoCreateTopicEnable=true\nmappedFileSizeCommitLog=268435456\n"
    )
    server = Server("apache", ports)
    server.processes.append(Process(command, folder / "ns"))
    return up(server, server.processes[0], "nameserver")


def _broker(folder: Path, durability: str) -> Server:
    """A name server and a broker."""
    server = _name_server(folder, durability)
    command = [*java(folder), f"{STARTUPS}broker.BrokerStartup", "-c", f"{folder}/bk.conf", *_where(server)]
    server.processes.append(Process(command, folder / "bk"))
    server.roles = {"store": [server.processes[1]], "gateway": []}
    return up(server, server.processes[1], "remoting")


def _add_proxy(server: Server, folder: Path) -> Server:
    ports = {"grpc": free_port(), "proxy": free_port()}
    own = folder / f"px{len(server.roles['gateway'])}"
    _set_proxy(own, {**server.ports, **ports}, "CLUSTER")
    command = [*java(own), f"{STARTUPS}proxy.ProxyStartup", "-pm", "cluster", *_where(server)]
    return _add(server, Process(command, own, {"RMQ_PROXY_HOME": str(own)}), ports)


def _add_gateway(server: Server, folder: Path, durability: str) -> Server:
    own = folder / f"gateway{len(server.roles['gateway'])}"
    ports, proxy = {name: free_port() for name in installed().ports}, free_port()
    where = f"rocketmq://127.0.0.1:{server.ports['nameserver']}"
    command = [sys.executable, "-m", "gateway", "run", "--roles", "gateway", "--store", where, "--durability", durability]
    notified = {"PYTHONPATH": str(ROOT), "HEADGATE_STORE_BROKER_PORTS": str(proxy)}
    process = Process([*command, "--data", str(own / "data"), *port_options(ports)], own, notified)
    return _add(server, process, {name: port for name, port in ports.items() if name != "nameserver"} | {"proxy": proxy})


def _add(server: Server, process: Process, ports: dict[str, int]) -> Server:
    """Wait for a gateway or a proxy. The first one's ports are the server's, but for the broker's own."""
    at = {name: port for name, port in ports.items() if name != "remoting"}
    if server.roles["gateway"]:
        server.beside.append(at)
    else:
        server.ports |= at
    server.processes.append(process)
    server.roles["gateway"].append(process)
    for name in ("grpc", "proxy"):
        up(server, process, at[name])
    return server


def _where(server: Server) -> list[str]:
    return ["-n", f"127.0.0.1:{server.ports['nameserver']}"]


def java(folder: Path, least: str = "1g", most: str = "2g") -> list[str]:
    """The command of a JVM of Apache's, up to the class, with a heap of this size. Raises AbsentError."""
    if not APACHE_JARS.is_dir():
        raise AbsentError("Apache RocketMQ is not there: cd benchmarks/apache && mvn dependency:copy-dependencies "
                     "-DoutputDirectory=../../.deps/apache")  # fmt: skip
    return [
        "java", f"-Xms{least}", f"-Xmx{most}", "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
        f"-Drocketmq.home.dir={folder}", f"-Duser.home={folder}", "-cp", f"{APACHE_JARS}/*",
    ]  # fmt: skip


def _set_proxy(folder: Path, ports: dict[str, int], mode: str) -> None:
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    (folder / "conf" / "rmq-proxy.json").write_text(
        json.dumps(
            {
                "rocketMQClusterName": "DefaultCluster",
                "proxyMode": mode,
                "namesrvAddr": f"127.0.0.1:{ports['nameserver']}",
                "grpcServerPort": ports["grpc"],
                "remotingListenPort": ports["proxy"],
            }
        )
    )
