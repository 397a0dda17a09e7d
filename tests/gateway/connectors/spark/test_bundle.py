"""`--py-files` with the bundle: a session whose interpreter has no other file of the project reads a topic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pyspark
import pytest

from tests.gateway.client.fake_broker import FakeBroker
from tests.gateway.connectors.spark.session import SETTINGS, environment
from tests.gateway.connectors.spark.test_package import plain_copy

pytestmark = pytest.mark.slow
RUN_S = 600
"""For what takes seconds: two Java machines and five interpreters start, on a machine that others load."""
PROJECT = ("domain", "gateway", "headgate", "nameserver", "protocols", "pyspark_headgate", "store", "__editable__")
"""How the names of the project's files in site-packages begin."""

DRIVER = """
import json, sys
from pyspark.sql import SparkSession
nameserver, topic, register = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
if register == "register":
    from pyspark_headgate import DefaultSource
    spark.dataSource.register(DefaultSource)
rows = spark.read.format("headgate").option("nameserver", nameserver).load(topic).collect()
bodies = [bytes(row.body).decode() for row in rows]
place = lambda _: __import__("gateway.client.client").client.client.__file__
source = spark.sparkContext.parallelize([0], 1).map(place).first()
print(json.dumps([bodies, source]))
"""


def other_interpreter(folder: Path) -> Path:
    """An interpreter with all the packages of this one, except the project, however that is installed."""
    venv.create(folder, with_pip=False, symlinks=True)
    [own] = folder.glob("lib/python*/site-packages")
    for package in Path(sysconfig.get_path("purelib")).iterdir():
        if not package.name.startswith(PROJECT) and package.suffix != ".pth":
            (own / package.name).symlink_to(package)
    return folder / "bin" / "python"


def clean_environment(interpreter: Path) -> dict[str, str]:
    around = {name: value for name, value in (os.environ | environment()).items() if name != "PYTHONPATH"}
    return around | {"PYSPARK_PYTHON": str(interpreter), "PYSPARK_DRIVER_PYTHON": str(interpreter)}


@pytest.mark.parametrize("way", ["register", "PYTHONPATH"])
def test_the_bundle_alone_makes_the_source_known_to_driver_and_workers(tmp_path: Path, way: str) -> None:
    """Spark looks for sources in the driver's PYTHONPATH and not in --py-files, where registered ones are found."""
    interpreter = other_interpreter(tmp_path / "venv")
    around = clean_environment(interpreter)
    for name in ("domain", "gateway", "pyspark_headgate"):
        there = subprocess.run(
            [str(interpreter), "-c", f"import {name}"], cwd="/", env=around, capture_output=True, check=False
        )
        assert there.returncode != 0, f"{name} is installed"
    target = tmp_path / "headgate-spark.zip"
    make = [sys.executable, "-m", "gateway.connectors.spark.bundle", str(target)]
    copy = plain_copy(tmp_path / "copy")
    subprocess.run(make, cwd=copy, env=around | {"PYTHONPATH": str(copy)}, check=True, capture_output=True)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    with FakeBroker() as broker:
        broker.create("orders")
        broker.put("orders", b"a")
        broker.put("orders", b"b")
        submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--py-files", str(target)]
        settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
        command = [*submit, "--master", "local[2]", *settings, str(script), broker.address, "orders", way]
        if way == "PYTHONPATH":
            around[way] = str(target)
        done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    bodies, source = json.loads(done.stdout.splitlines()[-1])
    assert bodies == ["a", "b"]
    assert source.endswith("headgate-spark.zip/gateway/client/client.py")
