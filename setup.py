"""What is compiled, and how. Everything else about the package is in pyproject.toml.

    pip install .                      compiled modules go into the wheel, where a compiler and libnghttp2 are there
    python setup.py compile            compiled modules go into .compiled/, for a working tree (./up, make compile)

The sources are the `.py` files as they stand, and one binding in Cython. Each group is all or nothing: without a compiler,
or without libnghttp2, the node is slower, never broken. HEADGATE_PURE=1 compiles nothing; HEADGATE_REQUIRE_COMPILED=1 fails
where it cannot. The compiled modules of a working tree are used only while `.compiled/inputs.sha256` still describes the
sources that they were made of (gateway/runtime/compiled.py).
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent

FOLDERS = {
    "domain": ("address", "expiry", "message", "property", "receipt", "record"),
    "domain/filter": ("tag",),
    "protocols/cloudevents": ("event", "http", "instant", "json", "message"),
    "protocols/coap": (
        "blockwise", "dedup", "endpoint", "exchange", "media", "message", "observe", "option", "outcome", "peers",
        "replier", "resource", "responder", "status", "translate", "transmitter", "upload", "wellknown",
    ),
    "protocols/grpc": (
        "application", "call", "framing", "receive", "send", "settle", "translate_in", "translate_out", "wire",
    ),
    "protocols/http": (
        "connection", "events", "exchange", "find", "handler", "latest", "options", "path", "problem", "pull",
        "reader", "receive", "request", "response", "router", "send", "settle", "status", "topics",
    ),
    "protocols/http2": ("connection", "frame"),
    "protocols/mqtt": (
        "access", "connect", "connection", "handshake", "output", "packet", "property", "publish", "send",
        "subscribe", "subscriptions", "translate", "wire",
    ),
    "protocols/remoting": ("client", "frame", "header", "pull", "send", "ticket"),
    "store": ("append", "core"),
    "store/delay": ("parking",),
    "store/keys": ("index", "row"),
    "store/lease": ("call", "expiry", "journal", "ledger", "order", "ranges", "table", "tables", "turn"),
    "store/log": ("batch", "cache", "commit", "reader", "segment"),
    "store/queue": ("index", "queue", "row"),
    "store/state": ("keys",),
    "gateway/connection": ("client_connection", "context", "pump"),
    "gateway/routing": ("routes", "trie"),
    "gateway/usecase": ("dispatcher",),
    "gateway/usecase/catalog": ("groups", "placement", "topics"),
    "gateway/usecase/consume": ("long_polls", "receive", "settle"),
    "gateway/usecase/publish": ("identity", "send"),
    "gateway/usecase/sessions": (
        "catchup", "claims", "group_dispatcher", "inflow", "mqtt_session", "outflow", "sessions", "shares", "snapshot",
        "strategy",
    ),
}  # fmt: skip
LEAVES = tuple(f"{folder}/{name}.py" for folder, names in FOLDERS.items() for name in names)
"""Compiled by mypyc: synchronous, annotated, over ints and bytes; each is faster for it and passes its tests."""

BINDING = "protocols/http2/engine_nghttp2.pyx"
BINDING_DECLARATIONS = "protocols/http2/nghttp2.pxd"

OUTPUT = ROOT / ".compiled"
PURE = os.environ.get("HEADGATE_PURE") == "1"
REQUIRED = os.environ.get("HEADGATE_REQUIRE_COMPILED") == "1"


def leaves() -> list[Extension]:
    """The extensions of all leaves, one mypyc group."""
    from mypyc.build import mypycify

    paths = [path for path in LEAVES if (ROOT / path).exists()]
    flags = ["--strict", "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}"]
    extensions: list[Extension] = list(mypycify([*flags, *paths], opt_level="2", debug_level="0", group_name="headgate"))
    for extension in extensions:
        # The search for things to warn of takes longer than all the rest, over one large file that no person has written.
        extension.extra_compile_args.append("-Wno-all")
    return extensions


def binding() -> list[Extension]:
    """The binding to libnghttp2."""
    from Cython.Build import cythonize

    if not (ROOT / BINDING).exists():
        return []
    name = BINDING.removesuffix(".pyx").replace("/", ".")
    extension = Extension(name, [BINDING], libraries=["nghttp2"], extra_compile_args=["-O2"])
    return list(cythonize([extension], build_dir="build/cython", language_level=3, quiet=True))


GROUPS = {"leaves": leaves, "nghttp2": binding}


def inputs_of(group: str) -> list[str]:
    """Every source file that a group's machine code was made from: what its modules import of ours, and so on."""
    waiting = list(LEAVES) if group == "leaves" else [BINDING, BINDING_DECLARATIONS]
    found = {"setup.py"}
    while waiting:
        path = waiting.pop()
        if path in found or not (ROOT / path).exists():
            continue
        found.add(path)
        if path.endswith(".py"):
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
                waiting += [name.replace(".", "/") + ".py" for name in _imported(node)]
                waiting += [name.replace(".", "/") + "/__init__.py" for name in _imported(node)]
    return sorted(found)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        return [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return []


class BuildGroups(build_ext):
    """build_ext that builds group by group; a group that fails leaves nothing behind."""

    done: dict[str, list[str]]
    why: dict[str, str]

    def finalize_options(self) -> None:
        """As ever; the extensions themselves are made in `run`, for that starts mypyc and Cython."""
        super().finalize_options()
        self.done, self.why = {}, {}

    def run(self) -> None:
        """Build every group that can be built."""
        self.extensions = []
        if self.editable_mode or PURE:
            return
        for group, make in GROUPS.items():
            try:
                self.extensions = make()
                if self.extensions:
                    self._build()
                    self.done[group] = [extension.name for extension in self.extensions]
            except (BaseError, CCompilerError, ImportError, OSError, SystemExit) as error:
                self._give_up(group, error)
        self.extensions = []

    def _build(self) -> None:
        self.distribution.ext_modules = self.extensions
        command = build_ext(self.distribution)
        command.build_lib, command.build_temp, command.inplace = self.build_lib, self.build_temp, self.inplace
        command.ensure_finalized()
        command.run()

    def get_outputs(self) -> list[str]:
        """What was built."""
        names = [name for group in self.done.values() for name in group]
        return [str(Path(self.build_lib, self.get_ext_filename(name))) for name in names]

    def _give_up(self, group: str, error: BaseException) -> None:
        for extension in self.extensions:
            Path(self.build_lib, self.get_ext_filename(extension.name)).unlink(missing_ok=True)
        reason = "mypyc refuses the sources" if isinstance(error, SystemExit) else " ".join(str(error).split())
        reason = "the C compiler failed" if reason.startswith("Command '") else reason[:120]
        if "No such file or directory: '" in reason:
            reason = f"{reason.rpartition(': ')[2].strip(chr(39))} is not installed"
        if REQUIRED:
            raise SystemExit(f"headgate: {group} could not be compiled: {reason}") from error
        self.why[group] = reason
        print(f"headgate: {group} not compiled, the pure modules are used and slower: {reason}", file=sys.stderr)


class Compile(Command):
    """Compile into .compiled/, with a record of the sources."""

    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        """There are none."""

    def finalize_options(self) -> None:
        """There are none."""

    def run(self) -> None:
        """Build into a fresh folder and put it in the old one's place."""
        os.chdir(ROOT)
        fresh = OUTPUT.with_name(".compiled.new")
        shutil.rmtree(fresh, ignore_errors=True)
        build = self.get_finalized_command("build_ext", create=True)
        build.build_lib, build.build_temp, build.inplace = str(fresh), "build/compile", False
        build.run()
        fresh.mkdir(exist_ok=True)
        names = [name for group in build.done for name in inputs_of(group)] or inputs_of("leaves")
        sums = [f"{hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(set(names))]
        (fresh / "inputs.sha256").write_text("".join(sums))
        record = {
            "python": sys.implementation.cache_tag,
            "groups": {group: {"modules": names, "inputs": inputs_of(group)} for group, names in build.done.items()},
            "why": build.why if not PURE else dict.fromkeys(GROUPS, "HEADGATE_PURE=1"),
        }
        (fresh / "record.json").write_text(json.dumps(record, indent=1))
        shutil.rmtree(OUTPUT, ignore_errors=True)
        fresh.rename(OUTPUT)
        count = sum(len(names) for names in build.done.values())
        print(f"headgate: {count} modules compiled into {OUTPUT.name}/")


setup(
    cmdclass={"build_ext": BuildGroups, "compile": Compile},
    ext_modules=[Extension("placeholder", [])],
)
