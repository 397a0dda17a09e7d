"""The tests that are left out over several gateways exist, and each has its reason."""

from __future__ import annotations

from tests.interop.cluster.one_process import ONE_PROCESS
from tests.tidy.source import ROOT


def test_what_is_left_out_exists() -> None:
    for name, reason in ONE_PROCESS.items():
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), name
        assert reason
