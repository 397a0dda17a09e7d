"""Run Apache's end-to-end suite for live clusters against a node of one's own, or before brokers of Apache's.

    git clone https://github.com/apache/rocketmq-e2e /elsewhere
    python -m tests.conformance.apache_e2e /elsewhere [MODULE] [CLASS ...] [--at PLACE] [--brokers COUNT] [--client VERSION]
        [--keep FOLDER]

Modules: grpc (java/e2e), remoting (java/e2e-v4), spring (java/e2e-spring), golang. Without one: all of them. The suite is no
part of this project; it is compiled from the checkout by our own projects beside this file, with the versions of the clients
that it names or the one of `--client`. Every class runs in a process of its own, one after the other, all at one place for each
module; one with a test that fails, though it should pass, runs a second time, as the suite is impatient. Ends with 1 when
a test fails that `expected.toml` does not name for that place, or one that it names passes.

Places: node; gateway, before two brokers of Apache RocketMQ 5.5.0; apache, their own proxy and name server with two such
brokers. With `--brokers 1` there is one: some tests are written for a cluster of one broker, and `expected.toml` names those
that fail before two.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.conformance.apache_e2e.expected import Verdict
from tests.conformance.apache_e2e.golang import run as run_golang
from tests.conformance.apache_e2e.java import MODULES
from tests.conformance.apache_e2e.java import run as run_java
from tests.interop.rocketmq.apache import TWO
from tests.interop.rocketmq.places import NODE, PLACES

GOLANG: Final = "golang"


def main(words: list[str]) -> int:
    """Run what is asked for, say how each test went, and what differs from what is expected."""
    parser = argparse.ArgumentParser(prog="tests.conformance.apache_e2e")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("module", nargs="?", choices=[*MODULES, GOLANG])
    parser.add_argument("classes", nargs="*")
    parser.add_argument("--at", choices=PLACES, default=NODE, help="what the suite runs against")
    parser.add_argument(
        "--brokers", type=int, choices=(1, 2), default=len(TWO), help="brokers of Apache's, where there are any"
    )
    parser.add_argument("--client", help="version of the client instead of the suite's own")
    parser.add_argument("--keep", type=Path, help="folder that keeps what the processes print")
    asked = parser.parse_args(words)
    surprises = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = (asked.keep or Path(scratch)).resolve()
        for module in [asked.module] if asked.module else [*MODULES, GOLANG]:
            verdict = Verdict(module, asked.at, asked.brokers)
            checkout, names = asked.checkout.resolve(), TWO[: asked.brokers]
            if module == GOLANG:
                run_golang(checkout, folder / module, verdict, asked.at, asked.client, names)
            else:
                run_java(checkout, folder / module, MODULES[module], verdict, asked.at, asked.client, asked.classes, names)
            surprises += verdict.close()
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
