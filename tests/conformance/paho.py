"""Run the Eclipse Paho interoperability suites for MQTT 3.1.1 and 5.0 against a node of one's own.

    git clone https://github.com/eclipse/paho.mqtt.testing /elsewhere
    python -m tests.conformance.paho /elsewhere [TEST ...]

The suites are not part of this project. Their names, topics and the refused filter are their own; one test of the first
suite is named so that it never runs by itself (`will_message_test`), and runs here. Ends with 1 when a test fails.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.interop.node import Node

SUITES: Final = ("client_test", "client_test5")
CONFIGURATION: Final = Path(__file__).with_name("paho.toml")
"""The rule that refuses the filter `test/nosubscribe`."""
KEEP_ALIVE: Final = {"HEADGATE_MQTT_KEEP_ALIVE_MAX_S": "60"}
"""A test asks for 120 s and wants to be given 60."""
TEST_S: Final = 180

ONE: Final = """
import importlib, sys, unittest
suite, port, name = sys.argv[1:]
sys.path.insert(0, ".")
module = importlib.import_module(suite)
prefix = "client_test5/" if suite == "client_test5" else ""
module.host, module.port, module.topic_prefix = "127.0.0.1", int(port), prefix
module.topics = [prefix + topic for topic in ("TopicA", "TopicA/B", "Topic/C", "TopicA/C", "/TopicA")]
module.wildtopics = [prefix + topic for topic in ("TopicA/+", "+/C", "#", "/#", "/+", "+/+", "TopicA/#")]
module.nosubscribe_topics = ("test/nosubscribe",)
if hasattr(module, "setData"):
    inner = module.setData
    def set_data():
        inner()
        module.host, module.port = "127.0.0.1", int(port)
    module.setData = set_data
if not name:
    names = [one for one in dir(module.Test) if one.startswith("test")]
    print(*names, *(["will_message_test"] if hasattr(module.Test, "will_message_test") else []))
    sys.exit(0)
outcome = unittest.TextTestRunner(verbosity=0).run(unittest.TestSuite([module.Test(name)]))
sys.exit(0 if outcome.wasSuccessful() else 1)
"""


def run(folder: Path, suite: str, port: int, name: str = "") -> subprocess.CompletedProcess[str]:
    """One test in a process of its own; without a name: tell the names."""
    command = [sys.executable, "-c", ONE, suite, str(port), name]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=TEST_S, check=False)


def main(checkout: Path, wanted: Collection[str] = ()) -> int:
    """Run both suites, or the tests that are wanted, one after the other on one node, and say how each went."""
    folder = checkout / "interoperability"
    failed = 0
    options = ("--durability", "page", "--config", str(CONFIGURATION))
    with tempfile.TemporaryDirectory() as scratch, Node(Path(scratch), *options, environment=KEEP_ALIVE) as node:
        for suite in SUITES:
            for name in run(folder, suite, 0).stdout.split():
                if wanted and name not in wanted:
                    continue
                began = time.monotonic()
                done = run(folder, suite, node.port("mqtt"), name)
                wrong = done.returncode != 0
                failed += wrong
                print(f"{suite:<13} {name:<32} {'FAILED' if wrong else 'ok':<7} {time.monotonic() - began:6.1f} s", flush=True)
                if wrong:
                    print(done.stdout[-3000:], done.stderr[-3000:], flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
