"""A network of namespaces on one bridge of this machine: each node has an address, and any direction can be cut silently.

Needs root and iproute2. A direction is cut by a permanent neighbour entry for a hardware address that nobody has: what is sent
there is lost, connections stay, and nobody is told. The tests themselves are at the bridge's address, which nothing parts from
anybody.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from itertools import cycle
from pathlib import Path
from types import TracebackType
from typing import Final

NOBODY: Final = "02:00:00:00:00:dd"
_NAMES: Final = re.compile(r"^hg(\d+)[a-z]?(?:b$|-)")
_LETTERS: Final = cycle("acdefghijklmnopqrstuvwxyz")
"""Letters of the networks of this process: links of one are still there for a moment when the next one begins."""


def missing() -> str:
    """Why namespaces cannot be made here; "": they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need iproute2 (the command ip)"
    name = f"hg{os.getpid()}-try"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"network namespaces cannot be made: {done.stderr.strip()[-200:]}"
    subprocess.run(["ip", "netns", "del", name], check=False)
    return ""


class Network:
    """A bridge, and a namespace for each name.

    names    of the nodes
    address  node -> its IPv4 address
    own      the address of the tests
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._tag = f"hg{os.getpid()}{next(_LETTERS)}"
        net = f"10.{64 + os.getpid() // 250 % 64}.{os.getpid() % 250}"
        self.own = f"{net}.1"
        self.address = {name: f"{net}.{at + 10}" for at, name in enumerate(self.names)}
        self._hardware = {name: f"02:00:00:00:01:{at + 10:02x}" for at, name in enumerate(self.names)}

    def __enter__(self) -> Network:
        _remove_those_of_the_dead()
        bridge = f"{self._tag}b"
        try:
            _ip(f"link add {bridge} type bridge", f"addr add {self.own}/24 dev {bridge}", f"link set {bridge} up")
            for at, name in enumerate(self.names):
                self._join(name, bridge, f"{self._tag}v{at}")
            self.heal()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._remove()

    def inside(self, name: str) -> list[str]:
        """The words before a command that is to run in a node's namespace."""
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Nothing that `sources` send reaches `targets`. The other direction is not touched."""
        gone = set(targets)
        for source in sources:
            self._neighbours(source, gone, NOBODY)

    def part(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Neither of two sides reaches the other."""
        one, other = list(some), list(others)
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        """Everybody reaches everybody."""
        for name in self.names:
            self._neighbours(name, set(self.names), "")

    def _join(self, name: str, bridge: str, link: str) -> None:
        space = self._space(name)
        _ip(
            f"netns add {space}",
            f"link add {link} type veth peer name net0 netns {space}",
            f"link set {link} master {bridge}",
            f"link set {link} up",
        )
        _ip(
            "link set lo up",
            f"link set net0 address {self._hardware[name]}",
            f"addr add {self.address[name]}/24 dev net0",
            "link set net0 up",
            space=space,
        )

    def _neighbours(self, name: str, others: set[str], hardware: str) -> None:
        """`hardware`: "": the real one of each."""
        _ip(
            *(
                f"neigh replace {self.address[each]} lladdr {hardware or self._hardware[each]} dev net0 nud permanent"
                for each in others - {name}
            ),
            space=self._space(name),
        )

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _remove(self) -> None:
        _remove([self._space(name) for name in self.names], f"{self._tag}b")


def _ip(*commands: str, space: str = "") -> None:
    words = ["ip", *(["-n", space] if space else []), "-batch", "-"]
    done = subprocess.run(words, input="\n".join(commands) + "\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip: {done.stderr.strip()}: {commands}"


def _remove(spaces: Iterable[str], bridge: str) -> None:
    for each in spaces:
        subprocess.run(["ip", "netns", "del", each], capture_output=True, check=False)
    subprocess.run(["ip", "link", "del", bridge], capture_output=True, check=False)


def _remove_those_of_the_dead() -> None:
    """A run that was killed has left its namespaces: the machine has room for few."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        name = line.split(" ")[0]
        found = _NAMES.match(name)
        if found is not None and not Path("/proc", found[1]).exists():
            _remove([name], f"hg{found[1]}b")
