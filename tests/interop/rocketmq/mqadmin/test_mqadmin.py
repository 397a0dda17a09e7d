"""Every command of mqadmin 5.5.0 says the same at the address of a gateway and straight at the servers of a cluster behind it.

One JVM runs all commands. A block of commands is run straight and then through the gateway, with names of its own each time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.remoting.java import JavaClient
from tests.interop.rocketmq.apache import TWO, ApacheCluster
from tests.interop.rocketmq.mqadmin.commands import BLOCKS, ELSEWHERE
from tests.interop.rocketmq.mqadmin.console import Told, alike, run
from tests.interop.rocketmq.mqadmin.sides import Side, sides
from tests.interop.rocketmq.relays import RelayNode
from tests.interop.rocketmq.test_dashboard import USERS

pytestmark = pytest.mark.interop
ROWS = [(block, number) for block, rows in BLOCKS.items() for number in range(len(rows))]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, java: JavaClient) -> Iterator[tuple[Side, Side]]:
    """Both ways to a cluster of two brokers, with a producer and a consumer connected by each."""
    folder = tmp_path_factory.mktemp("mqadmin")
    with (
        ApacheCluster(folder / "apache", TWO, **USERS) as apache,
        RelayNode(folder / "gateway", apache.nameserver.address) as relay,
        sides(
            java, apache.nameserver.address, {name: each.address for name, each in apache.brokers.items()}, relay, folder
        ) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def told(java: JavaClient, both: tuple[Side, Side]) -> dict[tuple[str, int], Told]:
    """What every command has said, straight and through the gateway."""
    return {key: said for block, rows in BLOCKS.items() for key, said in run(java, both, block, rows).items()}


def test_every_command_of_mqadmin_is_run(java: JavaClient) -> None:
    registered = {line.split()[0] for line in java.admin("").splitlines() if line.startswith("   ")}
    run_here = {row.command.split(" ")[0] for rows in BLOCKS.values() for row in rows}
    assert len(registered) > 90
    assert registered - run_here == set(ELSEWHERE)


@pytest.mark.parametrize(
    ("block", "number"), ROWS, ids=[BLOCKS[block][at].command.replace(" ", "_")[:70] for block, at in ROWS]
)
def test_a_command_says_the_same_through_the_gateway(
    both: tuple[Side, Side], told: dict[tuple[str, int], Told], block: str, number: int
) -> None:
    alike(BLOCKS[block][number], told[block, number], both)
