"""A cluster of Apache's that does not start leaves no process behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.rocketmq.apache import ApacheCluster, JavaServer


class SilentServer(JavaServer):
    """A server that is never ready."""

    def __init__(self, folder: Path) -> None:
        super().__init__("silent", folder, 1, "", {})
        self.running = False

    def spawn(self) -> None:
        self.running = True

    def ready(self) -> None:
        raise AssertionError("silent does not listen")

    def stop(self) -> None:
        self.running = False


def test_a_cluster_that_does_not_start_is_stopped(tmp_path: Path) -> None:
    cluster = ApacheCluster(tmp_path, ())
    silent = cluster.nameserver = SilentServer(tmp_path)
    with pytest.raises(AssertionError, match="does not listen"):
        cluster.__enter__()
    assert not silent.running
