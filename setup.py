"""The compiled modules of the package and how they are built. Everything else is in pyproject.toml.

    pip install .                      puts compiled modules into the wheel if a compiler and libnghttp2 are installed
    python setup.py compile            puts compiled modules into .compiled/, for a working tree (./up, make compile)

The sources are the unchanged `.py` files, and one binding in Cython. A group is compiled completely or not at all: without a
compiler, or without libnghttp2, the node works but is slower. HEADGATE_PURE=1 compiles nothing; HEADGATE_REQUIRE_COMPILED=1
makes a failed compilation an error. The compiled modules of a working tree are used only while the checksums in
`.compiled/inputs.sha256` match the sources (gateway/runtime/compiled.py). COMPILE_LEVEL is the C compiler's level, 2 unless
it is set: at 1 it takes two thirds of the time, for a tree that is compiled to be tested once.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent

FOLDERS = {
    "domain": ("address", "histogram", "lazy_heap", "octets", "turn"),
    "domain/delivery": ("expiry", "retry_owner", "routed"),
    "domain/filter": ("expression", "tag"),
    "domain/message": ("message", "property", "pull", "receipt", "record", "send"),
    "domain/store": ("store_request",),
    "domain/subscription": ("courier",),
    "protocols": ("host_shares", "hosts", "marks", "upload"),
    "protocols/cloudevents": ("avro", "envelope", "event", "formats", "http", "instant", "json", "message", "version"),
    "protocols/coap": ("endpoint", "responder", "responses", "rights", "status"),
    "protocols/coap/blockwise": ("blockwise", "upload"),
    "protocols/coap/exchange": ("dedup", "exchange", "message_ids", "remotes", "replier"),
    "protocols/coap/message": ("media", "message", "option"),
    "protocols/coap/observe": ("group_observer", "observations"),
    "protocols/coap/resources": ("resource", "translate", "wellknown"),
    "protocols/grpc": (
        "application", "backlog", "call", "framing", "receive", "send", "settle", "translate_in", "translate_out",
        "wire",
    ),
    "protocols/http": (
        "application", "connection", "documents", "flow", "flow_streams", "handler", "path", "problem", "request",
        "request_run", "response", "router", "routes", "site", "status",
    ),
    "protocols/http/description": ("openapi",),
    "protocols/http/handlers": (
        "batch", "content", "events", "find", "groups", "latest", "pull", "receive", "send", "settle", "subscriptions",
        "topics", "transactions", "users", "webhook",
    ),
    "protocols/http/http1": ("chunks", "context", "exchange", "flow_output", "heads", "patience", "reader", "unread"),
    "protocols/http/streams": ("consume", "cursor", "follow", "lease", "produce", "records", "source", "websocket", "writer"),
    "protocols/http2": ("connection", "frame", "head", "stream"),
    "protocols/mqtt": (
        "access", "connect", "connection", "goodbye", "handshake", "inflated", "output", "packet", "property", "publish",
        "send", "subscribe", "subscriptions", "translate", "wire",
    ),
    "protocols/remoting": ("client", "connection", "dispatch", "framed_transport", "namespace", "ticket"),
    "protocols/remoting/clients": ("header_cache", "lite", "node_requests", "pop", "pull", "receive", "send", "settle"),
    "protocols/remoting/nodes/calls": ("octets", "values"),
    "protocols/remoting/nodes/forwarding": ("item", "kind", "shape", "stream"),
    "protocols/remoting/relayed": ("connection", "frame_slice"),
    "protocols/remoting/wire": ("frame", "header"),
    "store/appends": ("append", "client_appends", "effects", "writer"),
    "store/checkpoint": ("columns", "recovery", "replayed_queues", "snapshot"),
    "store/delay": ("parking",),
    "store/deletion": ("compaction",),
    "store/disk_full": ("admission", "faults"),
    "store/keys": ("index", "row", "runs"),
    "store/lease": (
        "call", "expiry", "idle_tables", "journal", "journaled_tables", "lag", "lag_sums", "lease_records",
        "leases", "live_tables", "member_pulls", "ordered_lease", "positions", "pull", "ranges", "replay", "table",
        "tables",
    ),
    "store/log": (
        "batch", "batch_writer", "checked", "commit", "copying", "gap", "open_batch", "reader", "recent", "segment",
        "segment_ends", "sync_delay", "syncs", "timeouts",
    ),
    "store/queue": (
        "block_files", "entries", "index", "queue", "row", "settings", "table", "tails",
    ),
    "store/opening": ("message_log",),
    "store/reads": ("hot", "listeners", "reading", "startup_queue"),
    "store/replication": ("following", "progress"),
    "store/replication/replica_log": ("eras", "raw_log"),
    "store/state": ("change", "port", "rows", "sorted_set", "values", "view"),
    "gateway/apache/pop": ("acknowledgements", "broker_side", "brokers", "call", "group_read", "leases", "reply", "request"),
    "gateway/apache/topics": ("await_metadata",),
    "gateway/brokers": (
        "appends", "broker_links", "cluster_map", "empty_body", "live_tail", "message_log", "pull_reply", "queue_choice",
        "queue_numbers", "refusal", "send_request", "topic_tail",
    ),
    "gateway/cluster/forwarding": ("forwarded_client", "forwarder", "gateway_clients", "gateway_life", "space_copies"),
    "gateway/connection": (
        "client_connection", "client_socket", "connection_limits", "context", "handler", "intake", "pump", "stream_driver",
        "unread_bytes",
    ),
    "gateway/link": ("backoff", "link", "request", "stream"),
    "gateway/link/sinks": ("courier", "sink_connection", "sink_pool"),
    "gateway/observe": ("counters",),
    "gateway/routing": ("filter_trie", "routes"),
    "gateway/runtime": ("clock",),
    "gateway/runtime/datagrams": ("calls", "inbox", "pump"),
    "gateway/usecase": ("dispatcher",),
    "gateway/usecase/consume": (
        "follow", "follow_call", "lease_watch", "leasing_call", "pull", "pull_poll", "receive", "receive_call", "settle",
        "watch",
    ),
    "gateway/usecase/lite": ("receive_poll",),
    "gateway/usecase/membership": ("pending_resets",),
    "gateway/usecase/publish": ("gathered_sends", "identity", "send", "will_publisher"),
    "gateway/usecase/sessions": (
        "attached_sessions", "in_flight", "inbound", "live_delivery", "mqtt_session", "offer_queue", "progress_checkpoints",
        "publisher", "record_values", "resend_and_lag", "sessions", "snapshot", "stored_sessions",
    ),
    "gateway/usecase/sessions/index": ("filter_index",),
    "gateway/usecase/sessions/shared": (
        "delivery_leases", "group_delivery", "share_line", "share_members", "share_strategy", "shared_dispatch",
        "shared_subscriptions",
    ),
    "gateway/usecase/tools": ("inspect",),
    "gateway/usecase/topics_and_groups": ("counters", "groups", "placement", "rights", "topics"),
    "gateway/usecase/waiting": ("long_polls",),
    "gateway/webhooks": ("internal_client",),
    "gateway/webhooks/delivery": (
        "batches", "breaker", "deliverer", "delivery_process", "leasing", "outbox", "rate_limit",
        "request_format", "requests", "retry_policy", "settlement", "signature",
    ),
    "gateway/webhooks/subscriptions": ("attempts", "owner_leases"),
}  # fmt: skip
LEAVES = tuple(f"{folder}/{name}.py" for folder, names in FOLDERS.items() for name in names)
"""Modules compiled by mypyc: synchronous, fully annotated, measurably faster when compiled."""

BINDING = "protocols/http2/engine_nghttp2.pyx"
BINDING_PARTS = tuple(f"protocols/http2/{name}" for name in ("known_fields.pxi", "nghttp2.pxd", "response_stream.pxi"))
"""What the binding includes."""

OUTPUT = ROOT / ".compiled"
PURE = os.environ.get("HEADGATE_PURE") == "1"
REQUIRED = os.environ.get("HEADGATE_REQUIRE_COMPILED") == "1"
LEVEL = os.environ.get("COMPILE_LEVEL", "2")
PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
GROUP = "headgate"
"""The name of the library that mypyc makes of all modules, and of its headers."""
HEADERS = "headers.h"
PROGRESS_S = 5.0
"""Seconds between two lines about the progress of the C compiler."""


def leaves() -> list[Extension]:
    """The extensions of `LEAVES`: one mypyc group with a C file for each module, so that all processors can compile."""
    from mypyc.build import mypycify

    paths = [path for path in LEAVES if (ROOT / path).exists()]
    flags = ["--strict", "--python-version", f"{sys.version_info[0]}.{sys.version_info[1]}"]
    say(f"translating {len(paths)} modules to C")
    extensions: list[Extension] = list(
        mypycify([*flags, *paths], opt_level=LEVEL, debug_level="0", group_name=GROUP, multi_file=True)
    )
    for extension in extensions:
        # Warnings about generated code are of no use and take time to compute.
        # Hidden symbols are bound when the library is linked, so calls between modules need no indirection.
        # mypyc gives all extensions the same list, so it is not added to.
        extension.extra_compile_args = [*extension.extra_compile_args, "-Wno-all", "-fvisibility=hidden"]
        extension.sources.sort(key=lambda path: -os.path.getsize(path))  # longest first: it should not be started last
    return extensions


def binding() -> list[Extension]:
    """The binding to libnghttp2."""
    from Cython.Build import cythonize

    if not (ROOT / BINDING).exists():
        return []
    name = BINDING.removesuffix(".pyx").replace("/", ".")
    extension = Extension(name, [BINDING], libraries=["nghttp2"], extra_compile_args=["-O2"])
    return list(cythonize([extension], build_dir="build/cython", language_level=3, quiet=True))  # type: ignore[no-untyped-call]


GROUPS = {"leaves": leaves, "nghttp2": binding}


def say(text: str) -> None:
    """Print one line with the prefix by which scripts/prepare selects the lines that it passes on."""
    print(f"headgate: {text}", flush=True)


def inputs_of(group: str) -> list[str]:
    """Paths of all source files of a group: its modules, and the project's modules that these import, transitively."""
    waiting = list(LEAVES) if group == "leaves" else [BINDING, *BINDING_PARTS]
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


class SideBySide:
    """Compiles several sources at once; replaces a compiler's `compile`, which compiles one after the other.

    pool         runs one thread for each processor
    compile_one  the compiler's own `compile`
    total        number of sources of all calls, for the progress line
    """

    def __init__(self, pool: ThreadPoolExecutor, compile_one: Callable[..., list[str]], total: int) -> None:
        self.pool, self.compile_one, self.total = pool, compile_one, total
        self.compiled = 0
        self.begun = self.said = time.monotonic()
        self.failure: Exception | None = None

    def __call__(self, sources: list[str], **options: object) -> list[str]:
        """Compile `sources`. Returns the object files, in the same order."""
        parts = [self.pool.submit(self._one, source, options) for source in sources]
        return [file for part in parts for file in part.result()]

    def _one(self, source: str, options: dict[str, object]) -> list[str]:
        if self.failure is not None:
            raise self.failure
        try:
            files = self.compile_one([source], **options)
        except Exception as failure:
            self.failure = failure
            raise
        self.compiled += 1
        now = time.monotonic()
        if now - self.said >= PROGRESS_S:
            self.said = now
            say(f"compiled {self.compiled} of {self.total} C files in {now - self.begun:.0f} s")
        return files


class BuildOnAllProcessors(build_ext):  # type: ignore[misc]
    """build_ext that compiles on all processors and prints its progress."""

    def finalize_options(self) -> None:
        """Also link extensions in parallel."""
        super().finalize_options()
        self.parallel = PROCESSORS

    def build_extensions(self) -> None:
        """Build all extensions."""
        total = sum(len(extension.sources) for extension in self.extensions)
        for extension in self.extensions:
            self._precompile(extension)
        with ThreadPoolExecutor(PROCESSORS) as pool:
            self.compiler.compile = SideBySide(pool, self.compiler.compile, total)
            super().build_extensions()

    def _precompile(self, extension: Extension) -> None:
        """Compile the headers of a library of many modules once: parsing them takes a fifth of the time of each module.

        A compiler that does not know precompiled headers, or refuses this one, reads the header itself.
        """
        library = next((Path(path) for path in extension.sources if Path(path).name == f"__native_{GROUP}.c"), None)
        if library is None:
            return
        header = library.with_name(HEADERS)
        header.write_text(f'#include "__native_{GROUP}.h"\n#include "__native_internal_{GROUP}.h"\n')
        paths = [f"-I{path}" for path in (*extension.include_dirs, *self.compiler.include_dirs)]
        made = ["-x", "c-header", str(header), "-o", f"{header}.gch"]
        command = [*self.compiler.compiler_so, *paths, *extension.extra_compile_args, *made]
        subprocess.run(command, check=False, capture_output=True)
        extension.extra_compile_args = [*extension.extra_compile_args, "-include", str(header)]


class BuildGroups(build_ext):  # type: ignore[misc]
    """build_ext that builds one group after the other, and removes the files of a group that fails.

    done   group -> names of its compiled modules
    why    group -> why it could not be compiled
    """

    done: dict[str, list[str]]
    why: dict[str, str]

    def finalize_options(self) -> None:
        """Prepare without making the extensions: `run` makes them, because that starts mypyc and Cython."""
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
        command = BuildOnAllProcessors(self.distribution)
        command.build_lib, command.build_temp, command.inplace = self.build_lib, self.build_temp, self.inplace
        command.ensure_finalized()
        command.run()

    def get_outputs(self) -> list[str]:
        """Paths of the compiled modules."""
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
        say(f"{group} not compiled, the pure modules are used and slower: {reason}")


class Compile(Command):  # type: ignore[misc]
    """Compile into .compiled/, with a record of the sources."""

    user_options: ClassVar[list[tuple[str, str, str]]] = []

    def initialize_options(self) -> None:
        """There are none."""

    def finalize_options(self) -> None:
        """There are none."""

    def run(self) -> None:
        """Build into a new folder, then replace the old one by it."""
        os.chdir(ROOT)
        begun = time.monotonic()
        fresh, old = OUTPUT.with_name(".compiled.new"), OUTPUT.with_name(".compiled.old")
        shutil.rmtree(fresh, ignore_errors=True)
        # The checksums are computed before the build: a source that is edited during the build is compiled again the next
        # time. They include groups that fail: a failed group is tried again when one of its sources has changed.
        names = sorted({name for group in GROUPS for name in inputs_of(group)})
        sums = [f"{hashlib.sha256((ROOT / name).read_bytes()).hexdigest()}  {name}\n" for name in names]
        build = self.get_finalized_command("build_ext", create=True)
        build.build_lib, build.build_temp, build.inplace = str(fresh), "build/compile", False
        build.run()
        fresh.mkdir(exist_ok=True)
        (fresh / "inputs.sha256").write_text("".join(sums))
        record = {
            "python": sys.implementation.cache_tag,
            "groups": {group: {"modules": names, "inputs": inputs_of(group)} for group, names in build.done.items()},
            "why": build.why if not PURE else dict.fromkeys(GROUPS, "HEADGATE_PURE=1"),
        }
        (fresh / "record.json").write_text(json.dumps(record, indent=1))
        shutil.rmtree(old, ignore_errors=True)
        if OUTPUT.exists():
            OUTPUT.rename(old)
        fresh.rename(OUTPUT)
        shutil.rmtree(old, ignore_errors=True)
        count = sum(len(modules) for modules in build.done.values())
        say(f"{count} modules compiled into {OUTPUT.name}/ in {time.monotonic() - begun:.0f} s")


setup(
    cmdclass={"build_ext": BuildGroups, "compile": Compile},
    ext_modules=[Extension("placeholder", [])],
)
