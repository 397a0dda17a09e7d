"""Spark data source `headgate`: `spark.read.format("headgate")` and `spark.readStream.format("headgate")`. See docs/spark.md.

Spark imports every module named `pyspark_…` when a Python data source is first used, and registers its `DefaultSource`. So
users register nothing, and this module must import fast: a query imports the other modules when it uses the source.
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
    """Messages of topics on a Headgate node, or on any RocketMQ cluster, as rows."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "headgate"

    def schema(self) -> StructType:
        """The schema of a query that gives none: the columns of option `columns`. Raises OptionError, ImportError."""
        _check_worker()
        from gateway.connectors.spark import column

        return column.struct(self.options.get("columns", ""))

    def reader(self, schema: StructType) -> BatchReader:
        """The reader of a batch query. Raises OptionError, ImportError."""
        _check_worker()
        from gateway.connectors.spark import column, option
        from gateway.connectors.spark.reader import BatchReader

        return BatchReader(option.parse(dict(self.options), streaming=False), column.arrow_schema(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """The reader of a streaming query. Raises OptionError, ImportError."""
        _check_worker()
        from gateway.connectors.spark import column, option
        from gateway.connectors.spark.reader import StreamReader

        return StreamReader(option.parse(dict(self.options), streaming=True), column.arrow_schema(schema))


def _check_worker() -> None:
    """Raises ImportError, naming what is missing, when PySpark is too old or the interpreter lacks a module."""
    if tuple(int(part) for part in pyspark.__version__.split(".")[:2]) < (4, 2):
        raise ImportError(f"format('headgate') needs PySpark 4.2 or later; this is {pyspark.__version__}.")
    for module in ("pyarrow", "numpy", "orjson"):
        if find_spec(module) is None:
            raise ImportError(
                f"format('headgate') runs in {sys.executable}, which has no module {module!r}. Install 'headgate[spark]' "
                "there, or let the environment variable PYSPARK_PYTHON name an interpreter that has it, on every machine."
            )
