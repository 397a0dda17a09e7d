"""The modules of the suite in Java: compiled by Maven, run by the console of JUnit, one process for every class."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.conformance.apache_e2e.expected import Verdict
from tests.conformance.apache_e2e.report import Outcome, outcomes, second_time
from tests.interop.rocketmq.apache import TWO
from tests.interop.rocketmq.places import PATIENT, Place, place

BUILD_S: Final = 600
CLASS_S: Final = 420
"""Longest run of one class: the longest test waits four minutes for what must not come."""
STOP_S: Final = 10
LAUNCHER: Final = "org.junit.platform.console.ConsoleLauncher"
PARALLEL: Final = "junit.jupiter.execution.parallel.config"


ATTEMPTS: Final = 10
ADMIN: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"
REMOTING: Final = "org.apache.rocketmq.remoting.protocol"
RENAMED: Final = {
    "org.apache.rocketmq.common.protocol.": f"{REMOTING}.",
    "org.apache.rocketmq.common.admin.": f"{REMOTING}.admin.",
    "org.apache.rocketmq.common.subscription.": f"{REMOTING}.subscription.",
    "createTopic(clusterName, topic, queueNum);": "createTopic(clusterName, topic, queueNum, null);",
    "HashMap<String, BrokerData> brokers": "java.util.Map<String, BrokerData> brokers",
}
"""What the module `remoting` calls, and how that is written since version 5.1 of the client."""
RENAMED_IN: Final = (5, 1)
AT_ONCE: Final = "-Drocketmq.client.rebalance.minInterval=10"
"""Newer clients take a second before they share out queues, in which the suite has sent its messages already."""
SPRING_TOPICS: Final = tuple(f"topic-{kind}-spring-test" for kind in ("normal", "order", "delay", "trans"))


@dataclass(frozen=True, slots=True)
class Module:
    """A project of ours that compiles one folder of the suite, and the properties by which its tests find the place."""

    project: str
    folder: str
    namesrv: str
    endpoint: str = ""
    at_once: int = 8
    """Tests of one class at once, whatever the machine: nearly all of them sleep nearly all of the time."""
    alone: tuple[str, ...] = ()
    """Classes whose tests take turns, as they share a client."""
    topics: tuple[str, ...] = ()
    """What has to be there before, as its consumers begin before it makes them, and look again after half a minute."""
    environment: dict[str, str] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    """What newer clients call otherwise."""
    settings: tuple[str, ...] = ()
    """Further properties."""


MODULES: Final = {
    "grpc": Module("grpc.xml", "java/e2e", "namesrvAddr", "endPoint", environment={"HEADGATE_POLICY_CREATE_TOPICS": "false"}),
    "remoting": Module(
        "remoting.xml", "java/e2e-v4", "namesrvAddr", alone=("NormalMessageSizeTest",), renamed=RENAMED, settings=(AT_ONCE,)
    ),
    "spring": Module("spring.xml", "java/e2e-spring", "rocketmq.name-server", at_once=1, topics=SPRING_TOPICS),
}
"""Apache's proxy makes no topic for who asks for its route, and that is tested. The tests of `spring` share their listeners."""


def run(
    checkout: Path, folder: Path, module: Module, verdict: Verdict, at: str, client: str | None = None,
    wanted: Collection[str] = (), names: Sequence[str] = TWO,
) -> None:  # fmt: skip
    """Compile the module and run its classes, or those that are wanted, at one place. `names`: of Apache's brokers."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    checkout = source(checkout, folder / "source", module, client)
    classpath = build(checkout, folder, module, client)
    with place(at, folder / "place", module.environment, names, **PATIENT) as there:
        for topic in module.topics:
            make_topic(folder, classpath, there.nameserver, topic)
        for name in classes(checkout / module.folder, folder / "build/test-classes"):
            if wanted and name.rpartition(".")[2] not in wanted:
                continue
            properties = [*options(module, there), "-cp", classpath]
            found = run_class(module, checkout, folder, properties, name)
            if any(verdict.surprise(each) and each.trouble for each in found):
                print(f"{name}: a second time", flush=True)
                found = second_time(found, run_class(module, checkout, folder, properties, name))
            for outcome in found:
                verdict.take(outcome)


def source(checkout: Path, folder: Path, module: Module, client: str | None) -> Path:
    """The checkout, or a copy of the module in `folder` by the names of the client that is asked for."""
    if client is None or not module.renamed or tuple(int(part) for part in client.split(".")[:2]) < RENAMED_IN:
        return checkout
    shutil.copytree(checkout / module.folder, folder / module.folder)
    for path in folder.rglob("*.java"):
        text = path.read_text()
        for old, new in module.renamed.items():
            text = text.replace(old, new)
        path.write_text(text)
    return folder


def build(checkout: Path, folder: Path, module: Module, client: str | None) -> str:
    """Compile into `folder` -> the class path."""
    output = folder / "classpath"
    command = [
        "mvn", "-q", "-B", "-f", str(Path(__file__).with_name(module.project)), f"-Dcheckout={checkout}",
        f"-Dbuild.folder={folder / 'build'}", f"-Dmdep.outputFile={output}",
        *([f"-Dclient.version={client}"] if client else []), "test-compile", "dependency:build-classpath",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S, check=False, cwd=folder)
    if done.returncode != 0:
        raise SystemExit((done.stdout + done.stderr)[-8000:])
    return f"{folder / 'build/test-classes'}:{folder / 'build/classes'}:{output.read_text()}"


def classes(folder: Path, compiled: Path) -> list[str]:
    """The names of the classes with tests; there are files in which all is a comment, from which nothing is compiled."""
    root = folder / "src/test/java"
    found = [path.relative_to(root) for path in sorted(root.rglob("*Test.java")) if "Test\n" in path.read_text()]
    return [".".join(path.with_suffix("").parts) for path in found if (compiled / path.with_suffix(".class")).exists()]


def options(module: Module, there: Place) -> list[str]:
    """The properties that name the addresses."""
    found = [f"-D{module.namesrv}={there.nameserver}", *module.settings]
    return [*found, f"-D{module.endpoint}={there.grpc}"] if module.endpoint else found


def java(folder: Path) -> list[str]:
    """The beginning of a command line; the home is in `folder`, where clients write their logs."""
    return ["java", "-Xmx512m", f"-Duser.home={folder / 'home'}", f"-Drocketmq.home.dir={folder / 'home'}"]


def make_topic(folder: Path, classpath: str, nameserver: str, topic: str) -> None:
    """By mqadmin, which ends with 0 whether or not its patience of three seconds was enough."""
    words = ("updateTopic", "-n", nameserver, "-c", "DefaultCluster", "-t", topic)
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [*java(folder), "-cp", classpath, ADMIN, *words], capture_output=True, text=True, timeout=CLASS_S, check=True
        )
        if "success" in done.stdout:
            return
    raise SystemExit(done.stdout + done.stderr)


def run_class(module: Module, checkout: Path, folder: Path, properties: list[str], name: str) -> list[Outcome]:
    """One class in a process of its own; one that does not end is asked for its threads and ended."""
    reports = folder / "reports" / name
    shutil.rmtree(reports, ignore_errors=True)
    short = name.rpartition(".")[2]
    at_once = 1 if short in module.alone else module.at_once
    command = [
        *java(folder), *properties, LAUNCHER, f"--select-class={name}",
        f"--reports-dir={reports}", "--disable-banner", "--details=none",
        f"--config={PARALLEL}.strategy=fixed", f"--config={PARALLEL}.fixed.parallelism={at_once}",
    ]  # fmt: skip
    place = checkout / module.folder
    began = time.monotonic()
    with (folder / f"{name}.log").open("wb") as output:
        process = subprocess.Popen(command, cwd=place, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        try:
            process.wait(CLASS_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)
            time.sleep(1)
            process.kill()
            process.wait()
    found = outcomes(reports)
    if not found:
        tail = (folder / f"{name}.log").read_text(errors="replace")[-3000:]
        found = [Outcome(short, time.monotonic() - began, f"the process ended with {process.returncode}:\n{tail}", False)]
    return found
