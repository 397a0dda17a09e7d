"""Run groups of Apache's tests, all of them when none is named.

    python -m tests.interop.remoting.apache_suite [--at PLACE] [GROUP or CLASS ...]

Places: node, which are three of our own; gateway, before three brokers of Apache's; apache, those brokers themselves.
Prints the result of each test. The exit status is 1 when a test failed or a process did not end normally.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.interop.remoting.apache_suite.cluster import Cluster, outcomes, suite
from tests.interop.rocketmq.places import NODE, PLACES


def main(words: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(prog="tests.interop.remoting.apache_suite")
    parser.add_argument("--at", choices=PLACES, default=NODE)
    parser.add_argument("wanted", nargs="*")
    asked = parser.parse_args(words)
    listed = suite()
    groups: dict[str, list[str]] = {**listed["often"], **listed["seldom"]}
    bad = 0
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder), asked.at) as cluster:
        for name in asked.wanted or groups:
            said = cluster.run(groups.get(name, [name]))
            bad += not said.endswith("done\n") or "failed" in outcomes(said).values()
            print(said, end="", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
