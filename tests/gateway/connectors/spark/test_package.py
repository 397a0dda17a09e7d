"""Imports: the module that Spark discovers imports little, and a worker needs no library of the server."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from gateway.connectors.spark import bundle

ROOT = Path(__file__).resolve().parents[4]

SERVER = [
    *("uvloop", "httptools", "h2", "hpack", "wsproto", "aiohttp", "grpc", "google.protobuf", "typer", "rich", "lark"),
    *("prometheus_client", "cryptography", "aiocoap", "cloudevents", "store", "nameserver"),
    *("gateway.node.node", "gateway.connection.pump", "gateway.runtime", "gateway.usecase", "gateway.observe"),
]

BLOCK = f"""
import sys
from importlib.abc import MetaPathFinder

class Blocked(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in {SERVER!r}):
            raise ImportError("the server library " + name + " was imported")

sys.meta_path.insert(0, Blocked())
"""


def python(code: str, folder: Path, *arguments: str) -> str:
    """Run `code` in a new interpreter that finds the project's modules only in `folder` (a folder or a zip file)."""
    start = f"import sys; sys.path.insert(0, {str(folder)!r})\n"
    command = [sys.executable, "-P", "-c", start + BLOCK + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def plain_copy(folder: Path) -> Path:
    """The sources of the bundle in a folder of their own, as a wheel puts them into site-packages."""
    for path in bundle.sources(ROOT):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    return folder


def test_discovery_imports_nothing_but_pyspark() -> None:
    loaded = python(
        "before = set(sys.modules)\n"
        "import pyspark.sql.datasource\n"
        "pyspark_only = set(sys.modules)\n"
        "import pyspark_headgate\n"
        "assert pyspark_headgate.DefaultSource.name() == 'headgate'\n"
        "print(*sorted(set(sys.modules) - pyspark_only))",
        ROOT,
    )
    assert loaded.split() == ["pyspark_headgate"]


def test_the_bundle_is_enough_to_read(tmp_path: Path) -> None:
    target = tmp_path / "headgate-spark.zip"
    count = bundle.write(target, ROOT)
    with zipfile.ZipFile(target) as found:
        names = found.namelist()
    assert len(names) == count
    assert "pyspark_headgate.py" in names
    assert not any(name.startswith(("store", "gateway/usecase", "protocols/http")) for name in names)
    where = python(
        "import pyspark_headgate\n"
        "from gateway.connectors.spark import reader, gather\n"
        "from protocols import compression\n"
        "source = pyspark_headgate.DefaultSource({'topic': 'orders'})\n"
        "source.reader(source.schema()), source.streamReader(source.schema())\n"
        "import gateway.client.client\n"
        "print(gateway.client.client.__file__)",
        target,
    )
    assert where.startswith(str(target))


def test_a_plain_copy_makes_the_same_bundle(tmp_path: Path) -> None:
    bundle.write(tmp_path / "one.zip", ROOT)
    bundle.write(tmp_path / "other.zip", plain_copy(tmp_path / "copy"))
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "other.zip").read_bytes()


def test_a_missing_library_is_named_with_the_interpreter(tmp_path: Path) -> None:
    said = python(
        "import importlib.util, pyspark_headgate\n"
        "real = importlib.util.find_spec\n"
        "pyspark_headgate.find_spec = lambda name: None if name == 'pyarrow' else real(name)\n"
        "try: pyspark_headgate.DefaultSource({}).schema()\n"
        "except ImportError as error: print(error)",
        ROOT,
    )
    assert sys.executable in said
    assert "no module 'pyarrow'" in said
    assert "PYSPARK_PYTHON" in said


def test_an_older_pyspark_is_refused_by_name(tmp_path: Path) -> None:
    said = python(
        "import pyspark\n"
        "pyspark.__version__ = '4.1.1'\n"
        "import pyspark_headgate\n"
        "try: pyspark_headgate.DefaultSource({}).schema()\n"
        "except ImportError as error: print(error)",
        ROOT,
    )
    assert "needs PySpark 4.2 or later; this is 4.1.1" in said
