"""`--py-files` with the bundle: a session without any other file of the project reads a topic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.connectors.spark import bundle
from tests.gateway.client.fake_broker import FakeBroker
from tests.gateway.connectors.spark.session import ROOT, environment

pytestmark = pytest.mark.slow

DRIVER = """
import json, sys
from pyspark.sql import SparkSession
nameserver, topic, bundle = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "512m")
spark = builder.config("spark.submit.pyFiles", bundle).getOrCreate()
rows = spark.read.format("headgate").option("nameserver", nameserver).load(topic).collect()
bodies = [bytes(row.body).decode() for row in rows]
place = lambda _: __import__("gateway.client.client").client.client.__file__
source = spark.sparkContext.parallelize([0], 1).map(place).first()
print(json.dumps([bodies, source]))
"""


def test_the_bundle_alone_makes_the_source_known_to_driver_and_workers(tmp_path: Path) -> None:
    target = tmp_path / "headgate-spark.zip"
    bundle.write(target, ROOT)
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    with FakeBroker() as broker:
        broker.create("orders")
        broker.put("orders", b"a")
        broker.put("orders", b"b")
        around = {name: value for name, value in (os.environ | environment()).items() if name != "PYTHONPATH"}
        command = [sys.executable, str(script), broker.address, "orders", str(target)]
        done = subprocess.run(command, cwd=tmp_path, env=around, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    bodies, source = json.loads(done.stdout.splitlines()[-1])
    assert bodies == ["a", "b"]
    assert source.endswith("headgate-spark.zip/gateway/client/client.py")
