"""What few nodes are is not imported by all of them: imports are most of the CPU of a start."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.metadata import entry_points

import pytest

from domain.errors import ConfigError
from gateway.node.roles.installed_roles import ROLES, role_named
from gateway.node.roles.role_names import APACHE, CONTROLLER, GATEWAY, NAMESERVER, REPLICA, STORE
from tests.interop.node import ROOT

PROGRAM = "import sys, gateway.node.node; from gateway.node.roles.installed_roles import role_named; {} print(*sys.modules)"
OTHERS = ("controller", "gateway.cluster.controller.controller_requests", "gateway.node.roles.apache", "gateway.apache.users")


def test_a_node_imports_neither_controllers_nor_what_is_before_an_apache_cluster() -> None:
    names = imported('role_named("store");')
    assert "gateway.node.roles.store" in names
    assert not names & set(OTHERS)


def test_a_node_imports_no_role_before_it_starts() -> None:
    names = imported("")
    assert not names & {point.module for point in entry_points(group=ROLES)}


def imported(statement: str) -> set[str]:
    """Names of the modules that a process has imported, with the module of the node and after `statement`."""
    program = PROGRAM.format(statement)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_installed_roles_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["entry-points"][ROLES]
    assert {point.name: point.value for point in entry_points(group=ROLES)} == declared
    assert set(declared) == {APACHE, CONTROLLER, GATEWAY, NAMESERVER, REPLICA, STORE}


def test_a_role_that_is_not_installed_is_named() -> None:
    with pytest.raises(ConfigError, match=r"role 'unknown' is not installed; installed: .*store"):
        role_named("unknown")
