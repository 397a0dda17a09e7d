"""The module of the suite in Go, in a copy that finds the mqadmin that it calls beside itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.apache_e2e.expected import Verdict
from tests.conformance.apache_e2e.java import BUILD_S
from tests.conformance.apache_e2e.report import TEXT, Outcome
from tests.interop.rocketmq.apache import TWO
from tests.interop.rocketmq.places import PATIENT, place

SUITE_S: Final = 600
OLD: Final = "github.com/apache/rocketmq-clients/golang"
RENAMED: Final = {
    OLD: f"{OLD}/v5",
    "rmq_client.WithAwaitDuration": "rmq_client.WithSimpleAwaitDuration",
    "rmq_client.WithSubscriptionExpressions": "rmq_client.WithSimpleSubscriptionExpressions",
}
"""What the suite calls, and its name since version 5.1 of the client."""
PROJECT: Final = Path(__file__).with_name("golang.xml")


def run(checkout: Path, folder: Path, verdict: Verdict, at: str, client: str | None = None, names: Sequence[str] = TWO) -> None:
    """Compile the module and run all its tests at one place. `names`: of Apache's brokers."""
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / "golang"
    shutil.copytree(checkout / "golang", copy)
    if client is not None:
        _exchange(copy, client)
    _mqadmin(folder)
    with place(at, folder / "place", None, names, **PATIENT) as there:
        places = {
            "NAMESERVER": there.nameserver,
            "GRPC_ENDPOINT": there.grpc,
            "BROKER_ADDR": there.brokers["broker-a"],
            "CLUSTER_NAME": "DefaultCluster",
        }
        done = subprocess.run(
            ["go", "test", "-json", "-count=1", "-p=1", f"-timeout={SUITE_S}s", "./mqgotest/..."],
            cwd=copy, env={**os.environ, **places, "HOME": os.environ.get("HOME", str(folder))},
            capture_output=True, text=True, timeout=2 * SUITE_S, check=False,
        )  # fmt: skip
    (folder / "golang.log").write_text(done.stdout + done.stderr)
    for outcome in outcomes(done.stdout):
        verdict.take(outcome)


def outcomes(lines: str) -> Iterator[Outcome]:
    """One for every test of `go test -json`, as they ended; and one for each package with trouble of its own."""
    said: dict[tuple[str, str], list[str]] = {}
    for line in lines.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        package, test = event.get("Package", ""), event.get("Test", "")
        if event.get("Action") == "output":
            said.setdefault((package, test), []).append(event["Output"])
        elif event.get("Action") in ("pass", "fail", "skip") and (test or event["Action"] == "fail"):
            wrong = event["Action"] == "fail"
            text = "".join(said.get((package, test), ()))[-TEXT:] or "failed"
            name = f"{package.rpartition('/')[2]}#{test or 'package'}"
            yield Outcome(name, float(event.get("Elapsed", 0)), text if wrong else "", event["Action"] == "skip")


def _exchange(copy: Path, client: str) -> None:
    """Have the copy use another version of the client, v5.1.0 or later, by its present names."""
    for source in copy.rglob("*.go"):
        text = source.read_text()
        for old, new in RENAMED.items():
            text = text.replace(old, new)
        source.write_text(text)
    for command in (
        ["go", "mod", "edit", f"-droprequire={OLD}"],
        ["go", "mod", "edit", f"-require={OLD}/v5@{client}"],
        ["go", "mod", "tidy"],
    ):
        _must(command, copy)


def _mqadmin(folder: Path) -> None:
    """The command by which the suite makes its topics, where it looks for it."""
    place = folder / "rocketmq-admintools" / "bin"
    place.mkdir(parents=True, exist_ok=True)
    output = folder / "classpath"
    _must(["mvn", "-q", "-B", "-f", str(PROJECT), f"-Dmdep.outputFile={output}", "dependency:build-classpath"], folder)
    main = "org.apache.rocketmq.tools.command.MQAdminStartup"
    options = f"-Xmx256m -Duser.home={folder} -Drocketmq.home.dir={folder}"
    (place / "mqadmin").write_text(f'exec java {options} -cp "{output.read_text()}" {main} "$@"\n')


def _must(command: list[str], folder: Path) -> None:
    """Run a command that has to succeed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode != 0:
        raise SystemExit((done.stdout + done.stderr)[-8000:])
