"""How the outcomes of Apache's end-to-end suite are read and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.apache_e2e import expected, golang, java, report
from tests.conformance.apache_e2e.report import Outcome

JUNIT = """<testsuite>
<testcase name="good()" classname="org.apache.A" time="1.5"/>
<testcase name="bad(String)[2]" classname="org.apache.A" time="0.1">
<failure message="no">no\n\tat java.base/X\n\tat org.apache.rocketmq.A</failure></testcase>
<testcase name="left()" classname="org.apache.A" time="0"><skipped/></testcase>
</testsuite>"""
GO = """
{"Action":"output","Package":"e2e/normal","Test":"TestA","Output":"wrong"}
{"Action":"fail","Package":"e2e/normal","Test":"TestA","Elapsed":2}
{"Action":"pass","Package":"e2e/normal","Test":"TestB","Elapsed":1}
{"Action":"fail","Package":"e2e/normal"}
{"Action":"pass","Package":"e2e/fifo"}
no event"""


def test_reports_of_junit_are_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-one.xml").write_text(JUNIT)
    bad, good, left = report.outcomes(tmp_path)
    assert (good.name, good.seconds, good.trouble, good.skipped) == ("A#good", 1.5, "", False)
    assert (bad.name, bad.trouble) == ("A#bad", "no\n\tat org.apache.rocketmq.A")
    assert left.skipped


def test_a_test_that_passes_at_the_second_time_has_passed() -> None:
    good, bad = Outcome("A#good", 1.0, "", False), Outcome("A#bad", 1.0, "wrong", False)
    late, later = Outcome("A#bad", 2.0, "", False), Outcome("A#good", 2.0, "wrong", False)
    assert report.second_time([good, bad], [late, later]) == [late, good]
    assert report.second_time([bad, late], [bad, late]) == [bad, late]


def test_events_of_go_are_read() -> None:
    found = [(each.name, each.trouble) for each in golang.outcomes(GO)]
    assert found == [("normal#TestA", "wrong"), ("normal#TestB", ""), ("normal#package", "failed")]


def test_newer_clients_are_called_by_their_names_in_a_copy(tmp_path: Path) -> None:
    module = java.MODULES["remoting"]
    checkout, folder = tmp_path / "checkout", tmp_path / "copy"
    original = checkout / module.folder / "src/One.java"
    original.parent.mkdir(parents=True)
    original.write_text("import org.apache.rocketmq.common.protocol.body.ClusterInfo;")
    for client in (None, "4.9.8", "5.0.0"):
        assert java.source(checkout, folder, module, client) == checkout
    assert java.source(checkout, folder, java.MODULES["grpc"], "5.2.0") == checkout
    assert java.source(checkout, folder, module, "5.5.0") == folder
    copied = (folder / module.folder / "src/One.java").read_text()
    assert copied == "import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;"
    assert "common" in original.read_text()


@pytest.mark.parametrize(
    ("outcome", "surprises"),
    [
        (Outcome("A#b", 1.0, "", False), 0),
        (Outcome("A#b", 1.0, "wrong", False), 1),
        (Outcome("A#known", 1.0, "wrong", False), 0),
        (Outcome("A#known", 1.0, "", False), 1),
        (Outcome("A#known", 1.0, "", True), 0),
        (Outcome("A#any", 1.0, "", False), 0),
        (Outcome("A#any", 1.0, "wrong", False), 0),
    ],
    ids=["passes", "fails", "fails as expected", "passes unexpectedly", "is not run", "passes by chance", "fails by chance"],
)
def test_what_is_not_expected_is_counted(
    outcome: Outcome, surprises: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "expected.toml"
    place.write_text('[gateway.grpc]\n"A#known" = "a reason"\n[gateway.grpc.either]\n"A#any" = "chance"\n')
    monkeypatch.setattr(expected, "EXPECTED", place)
    verdict = expected.Verdict("grpc", "gateway")
    verdict.take(outcome)
    assert verdict.close() == surprises


@pytest.mark.parametrize(
    ("at", "brokers", "surprises"), [("gateway", 2, 0), ("apache", 2, 0), ("gateway", 1, 1), ("node", 2, 1)]
)
def test_what_fails_before_two_brokers_has_to_pass_before_one(
    at: str, brokers: int, surprises: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "expected.toml"
    place.write_text('["two brokers".grpc]\n"A#two" = "a reason"\n')
    monkeypatch.setattr(expected, "EXPECTED", place)
    verdict = expected.Verdict("grpc", at, brokers)
    verdict.take(Outcome("A#two", 1.0, "wrong", False))
    assert verdict.close() == surprises


def test_a_module_without_a_test_is_a_surprise() -> None:
    assert expected.Verdict("grpc", "gateway").close() == 1
