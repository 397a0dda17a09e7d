"""Run groups of Apache's tests, all of them when none is named.

    python -m tests.interop.remoting.apache_suite [GROUP or CLASS ...]

Prints the result of each test. The exit status is 1 when a test failed or a process did not end normally.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.interop.remoting.apache_suite.cluster import Cluster, outcomes, suite


def main(wanted: list[str]) -> int:
    """The exit status."""
    listed = suite()
    groups: dict[str, list[str]] = {**listed["often"], **listed["seldom"]}
    bad = 0
    with tempfile.TemporaryDirectory() as folder, Cluster(Path(folder)) as cluster:
        for name in wanted or groups:
            said = cluster.run(groups.get(name, [name]))
            bad += not said.endswith("done\n") or "failed" in outcomes(said).values()
            print(said, end="", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
