"""The public test kit of CESQL, as the Go SDK of CloudEvents carries it: every expression has its value and its error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from domain.cesql.expression import Cesql
from domain.lexicon import ExpressionError
from tests.interop.workshop import made, need, step

MODULE, VERSION = "github.com/cloudevents/sdk-go/sql/v2", "v2.16.2"
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


class DatelessLoader(yaml.SafeLoader):  # type: ignore[misc]  # a class without types
    """YAML without dates: the value of an attribute is what is written."""


DatelessLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def kit() -> list[Path]:
    """The files of the kit, fetched once as a Go module."""
    need("the test kit of CESQL", "go")

    def make(folder: Path) -> None:
        (folder / "go.mod").write_text("module kit\n\ngo 1.21\n")
        step(["go", "mod", "download", f"{MODULE}@{VERSION}"], folder, "the test kit of CESQL", {"GOMODCACHE": str(folder)})
        for each in folder.rglob("*"):
            each.chmod(0o755 if each.is_dir() else 0o644)  # Go's cache is read-only, and could not be removed

    return sorted(made("cesql-kit", [f"{MODULE}@{VERSION}"], make).glob("**/test/tck/*.yaml"))


def event_of(case: dict[str, Any]) -> dict[str, Any]:
    usual = {"id": "1", "source": "/s", "type": "t", "specversion": "1.0"}
    found = {**(case.get("event") or usual), **(case.get("eventOverrides") or {})}
    return {name: value if isinstance(value, str | int | bool) else json.dumps(value) for name, value in found.items()}


def test_the_public_kit() -> None:
    ran = 0
    for file in kit():
        if "runtime" in file.parts:
            continue  # functions of users of the Go library
        for case in yaml.load(file.read_text("utf-8"), DatelessLoader)["tests"]:
            text = case["expression"]
            text = text if isinstance(text, str) else json.dumps(text)
            where = f"{file.name}: {case['name']}: {text}"
            ran += 1
            if case.get("error") == "parse":
                with pytest.raises(ExpressionError):
                    Cesql(text)
                continue
            value, faults = Cesql(text).evaluate(event_of(case))
            if "result" in case:
                assert (value, type(value)) == (case["result"], type(case["result"])), where
            assert ([case["error"]] if "error" in case else []) == [str(each) for each in faults][:1], where
    assert ran > 200
