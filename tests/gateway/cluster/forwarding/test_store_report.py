"""What a store's node reports to its gateways: why it takes no messages, and where the replicas of its group are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from domain.controller.serving import ServingWord
from domain.limits import SECOND_NS
from gateway.cluster.forwarding.store_addresses import StoreAddresses
from gateway.cluster.forwarding.store_report import REASONS, REPLICAS, SPACE, ReportedStore, StoreReport
from tests.far_node import NodeLink
from tests.gateway.cluster.forwarding.test_forwarder import Two

SEEDS = [("10.0.0.1", 10911)]


class Reporting:
    """A store that reports to a gateway."""

    def __init__(self) -> None:
        self.two = Two()
        self.reasons: list[str] = []
        self.replicas: dict[int, str] = {}
        self.word: ServingWord | None = None
        self.told_at: dict[int, str] = {}
        self.taken: list[Mapping[int, str]] = []
        self.doors_taken: list[Mapping[int, str]] = []
        self.report()
        self.known = self.heard_by(self.two.link)

    def report(self) -> None:
        self._report = StoreReport(self.two.clock, self.two.parts.forwarded, lambda: self.reasons, self)
        self._report.start()

    def gates(self) -> Mapping[int, str]:
        """ServedReplica.gates."""
        return self.replicas

    def doors(self) -> Mapping[int, str]:
        """ServedReplica.doors."""
        return self.told_at

    def serves(self, word: ServingWord | None) -> None:
        """ServedReplica.serves."""
        self.word = word

    def heard_by(self, link: NodeLink) -> ReportedStore:
        return ReportedStore(link.forwarder.state, lambda: None, self.taken.append, self.doors_taken.append)

    def run(self) -> None:
        self.two.clock.run_for(500)


def test_gateways_hear_why_no_messages_are_taken_and_when_they_are_again() -> None:
    scene = Reporting()
    scene.run()
    assert not scene.known.reasons
    scene.reasons = ["only 3% of the volume is free"]
    scene.run()
    assert scene.known.reasons == ("only 3% of the volume is free",)
    later = scene.heard_by(NodeLink(scene.two.parts.gate, scene.two.clock, 2))
    scene.run()
    assert later.reasons == scene.known.reasons, "one that connects later hears it too"
    scene.reasons = []
    scene.run()
    assert not [*scene.known.reasons, *later.reasons]


def test_the_replica_hears_whether_its_node_serves_clients_and_which_gateways_it_has() -> None:
    scene = Reporting()
    scene.reasons = ["only 3% of the volume is free", "the node stops"]
    scene.run()
    assert scene.word is not None
    assert scene.word.unready == "only 3% of the volume is free; the node stops"
    (gateway,) = scene.word.gateways
    assert (gateway.life, gateway.name) == scene.two.parts.forwarded.gateways[0][:2]
    assert gateway.silent_ms == 0
    scene.two.link.hang(8 * SECOND_NS)
    scene.two.clock.run_for(7_000)
    (gateway,) = scene.word.gateways
    assert 6_000 <= gateway.silent_ms <= 8_000, "its connection stands, and brings nothing"
    scene.two.clock.run_for(3_000)
    (gateway,) = scene.word.gateways
    assert gateway.silent_ms == 0
    scene.two.link.die()
    scene.run()
    assert scene.word.gateways == (), "it is not connected"
    scene._report.stop()
    assert scene.word is None


def test_another_store_that_reports_nothing_is_not_blamed_for_what_the_last_one_reported() -> None:
    """A store of the version before sends no such values."""
    scene = Reporting()
    scene.reasons, scene.replicas = ["it is full"], {1: "10.0.0.1:10911"}
    scene.run()
    scene._report.stop()
    scene.two.parts = scene.two.store()
    scene.two.link.store = scene.two.parts.gate
    scene.two.link.hang_up()
    scene.run()
    assert scene.known.reasons == ()
    assert scene.taken == [{1: "10.0.0.1:10911"}], "where the replicas are is kept"


@pytest.mark.parametrize("value", [b"", b"[1]", b"{}", b"nonsense", b'{"one": "10.0.0.1:1"}', b"[[]]"])
def test_what_cannot_be_read_changes_nothing(value: bytes) -> None:
    scene = Reporting()
    scene.reasons = ["it is full"]
    scene.run()
    scene._report.stop()
    for key in (REASONS, b"of a later version") if value != b"{}" else (b"other",):
        scene.two.parts.forwarded.report(SPACE, key, value)
    if value != b"{}":
        scene.two.parts.forwarded.report(SPACE, REPLICAS, value)
    scene.run()
    assert scene.known.reasons == ("it is full",)
    assert scene.taken == []


def test_addresses_that_are_none_count_as_unknown_ones() -> None:
    scene = Reporting()
    scene.replicas = {2: "10.0.0.2:10911", 1: "no address", 3: ""}
    scene.told_at = {2: "10.0.0.2:10913", 4: "no address"}
    scene.run()
    assert scene.taken == [{1: "", 2: "10.0.0.2:10911", 3: ""}]
    assert scene.doors_taken == [{2: "10.0.0.2:10913", 4: ""}]


class MemoryFile:
    """`AddressFile`."""

    def __init__(self) -> None:
        self.data = b""
        self.fails = False

    def read(self) -> bytes:
        return self.data

    def replace(self, data: bytes) -> None:
        if self.fails:
            raise OSError(28, "No space left on device")
        self.data = data


def test_replicas_are_tried_before_the_addresses_of_the_settings_and_are_kept() -> None:
    file = MemoryFile()
    addresses = StoreAddresses(SEEDS, file)
    assert addresses.endpoints == SEEDS
    assert addresses.take({2: "10.0.0.2:10911", 1: "10.0.0.1:10911", 3: ""})
    assert addresses.endpoints == [("10.0.0.1", 10911), ("10.0.0.2", 10911)]
    assert not addresses.take({1: "10.0.0.1:10911", 2: "", 3: ""}), "a replica that is down stays where it was"
    assert addresses.take({2: "10.0.0.2:10911", 4: "10.0.0.4:10911"})
    wanted = [("10.0.0.2", 10911), ("10.0.0.4", 10911), ("10.0.0.1", 10911)]
    assert addresses.endpoints == wanted, "one that was removed is where to look, since the settings name it, and no more"
    assert StoreAddresses(SEEDS, file).endpoints == wanted, "after a restart too"


def test_where_a_follower_tells_who_leads_is_tried_last_and_kept_where_a_version_before_passes_it_over() -> None:
    file = MemoryFile()
    addresses = StoreAddresses(SEEDS, file)
    assert addresses.take({1: "10.0.0.1:10911"})
    assert addresses.take_doors({1: "10.0.0.1:10913", 2: "10.0.0.2:10913", 3: ""})
    wanted = [("10.0.0.1", 10911), ("10.0.0.1", 10913), ("10.0.0.2", 10913)]
    assert addresses.endpoints == wanted
    assert not addresses.take_doors({1: "", 2: "10.0.0.2:10913"}), "one that is down stays where it was"
    assert StoreAddresses(SEEDS, file).endpoints == wanted, "after a restart too"
    numbers = [line.partition(" ")[0] for line in file.data.decode().split("\n")]
    assert [each for each in numbers if each.isdecimal()] == ["1"], "a version before knows lines that begin with a number"


def test_with_other_settings_than_before_nothing_that_was_kept_is_used() -> None:
    file = MemoryFile()
    before = StoreAddresses(SEEDS, file)
    before.take({2: "10.0.0.2:10911"})
    before.take_doors({2: "10.0.0.2:10913"})
    others = [("10.9.9.9", 10911)]
    assert StoreAddresses(others, file).endpoints == others


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"10.0.0.1:10911\nx 10.0.0.2:1\n2\n3 nowhere\n"])
def test_a_damaged_file_is_a_file_without_replicas(text: bytes) -> None:
    file = MemoryFile()
    file.data = text
    assert StoreAddresses(SEEDS, file).endpoints == SEEDS


def test_a_file_that_cannot_be_written_costs_nothing_but_the_memory_over_a_restart() -> None:
    file = MemoryFile()
    file.fails = True
    addresses = StoreAddresses(SEEDS, file)
    assert addresses.take({2: "10.0.0.2:10911"})
    assert ("10.0.0.2", 10911) in addresses.endpoints
