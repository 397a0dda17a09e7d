"""Spark data source `headgate`: `spark.read.format("headgate")` and `spark.readStream.format("headgate")`. See docs/spark.md.

Spark imports every module named `pyspark_…` when a Python data source is first used and registers its `DefaultSource`; so
nothing has to be registered by hand, and nothing heavy may be imported here: all else is loaded by the query that uses it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from gateway.connectors.spark.reader import BatchReader, StreamReader


class DefaultSource(DataSource):
    """Topics of a Headgate node (or of any RocketMQ cluster) as rows."""

    @classmethod
    def name(cls) -> str:
        """What `format` is given."""
        return "headgate"

    def schema(self) -> StructType:
        """The columns when the query brings no schema of its own: those of option `columns`."""
        _check_worker()
        from gateway.connectors.spark import column

        return column.struct(self.options.get("columns", ""))

    def reader(self, schema: StructType) -> BatchReader:
        """A batch query."""
        _check_worker()
        from gateway.connectors.spark import column, option
        from gateway.connectors.spark.reader import BatchReader

        return BatchReader(option.parse(dict(self.options), streaming=False), column.arrow_schema(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """A streaming query."""
        _check_worker()
        from gateway.connectors.spark import column, option
        from gateway.connectors.spark.reader import StreamReader

        return StreamReader(option.parse(dict(self.options), streaming=True), column.arrow_schema(schema))


def _check_worker() -> None:
    """Say in words for a person what this worker's interpreter lacks. Raises ImportError."""
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 2):
        raise ImportError(f"format('headgate') needs PySpark 4.2 or later; this is {pyspark.__version__}.")
    for module in ("pyarrow", "numpy", "orjson"):
        if find_spec(module) is None:
            raise ImportError(
                f"format('headgate') runs in {sys.executable}, which has no module {module!r}. Install 'headgate[spark]' "
                "there, or let the environment variable PYSPARK_PYTHON name an interpreter that has it, on every machine."
            )
