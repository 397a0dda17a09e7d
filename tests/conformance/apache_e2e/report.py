"""What the console of JUnit 5 left behind in its report: a line for every test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

REPORTS: Final = "TEST-*.xml"
TEXT: Final = 3000
"""Characters of a failure that are kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one test went. `trouble` is empty for a test that passed; `skipped` tests passed by not being run."""

    name: str
    """`Class#method`, with the class's simple name."""
    seconds: float
    trouble: str
    skipped: bool


def outcomes(folder: Path) -> list[Outcome]:
    """Every test of the reports in `folder`, sorted by name. Each call of a parametrised test is a line of its own."""
    found = [_outcome(case) for report in sorted(folder.glob(REPORTS)) for case in ElementTree.parse(report).iter("testcase")]
    return sorted(found, key=lambda each: each.name)


def second_time(first: list[Outcome], second: list[Outcome]) -> list[Outcome]:
    """The outcomes of two runs of the same tests: a test that passed the first time has passed."""
    wrong = {each.name for each in first if each.trouble}
    passed = [each for each in first if each.name not in wrong]
    names = {each.name for each in passed}
    return sorted([*passed, *(each for each in second if each.name not in names)], key=lambda each: each.name)


def _outcome(case: ElementTree.Element) -> Outcome:
    """One `testcase` of a report."""
    name = f"{case.get('classname', '').rpartition('.')[2]}#{case.get('name', '').partition('(')[0]}"
    wrong = [each for tag in ("failure", "error") for each in case.iter(tag)]
    trouble = "\n".join(_words(each.text or each.get("message") or each.tag) for each in wrong)[:TEXT]
    return Outcome(name, float(case.get("time", "0")), trouble, case.find("skipped") is not None)


def _words(text: str) -> str:
    """What went wrong and where in the suite, without the frames of everything below it."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("\tat ") or "org.apache.rocketmq" in line)
