"""Spark reads a topic from followers, and what they lack from the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.client.client import Client
from tests.gateway.connectors.spark.session import session
from tests.interop.controller.controllers import until
from tests.interop.replication.group import StoreGroupNodes
from tests.interop.replication.test_reads import TOPIC, Reader, address, read

pytestmark = [pytest.mark.interop, pytest.mark.slow]

COUNT = 300


def test_spark_reads_ranges_from_a_follower_while_the_leader_takes_messages(tmp_path: Path) -> None:
    with StoreGroupNodes(tmp_path, 2) as group:
        group.await_members(1, 2)
        leader = group.leader()
        follower = next(node for node in group.nodes if node is not leader)
        names = address(leader, "nameserver")
        with Client(names) as client:
            for number in range(COUNT):
                client.send(TOPIC, b"%d" % number, queue_id=number % 2)
        follows = Reader(address(follower, "readers"))
        until(lambda: follows.end() == COUNT // 2, "the follower has all of it")
        with session(tmp_path / "spark") as spark:

            def rows() -> list[int]:
                source = spark.read.format("headgate").option("nameserver", names).option("readFromFollowers", "true")
                found = source.option("maxRecordsPerPartition", 100).load(TOPIC).select("body").collect()
                return sorted(int(bytes(each.body)) for each in found)

            assert rows() == list(range(COUNT))
            assert read(follower) == COUNT, "every one of them came from the follower"
            group.kill(follower)
            assert rows() == list(range(COUNT)), "the leader has them too"
