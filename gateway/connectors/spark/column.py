"""The columns of a row, and the columns of a query."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)  # fmt: skip

from gateway.connectors.spark.failure import OptionError

TYPES: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "keys": StringType(),
    "tags": StringType(),
    "messageId": StringType(),
    "messageGroup": StringType(),
    "bornHost": StringType(),
    "properties": MapType(StringType(), StringType()),
    "body": BinaryType(),
    "reconsumeTimes": IntegerType(),
    "bodyCrc": IntegerType(),
}
"""Column name -> Spark type, in the order of the schema."""

ON_REQUEST: Final[frozenset[str]] = frozenset({"reconsumeTimes", "bodyCrc"})
"""Columns that a row has only when option `columns` is `all` or names them."""


def struct(columns: str) -> StructType:
    """Option `columns` ("" : all but ON_REQUEST; `all`; or names with commas) -> the schema. Raises OptionError."""
    if columns.strip().lower() == "all":
        names = list(TYPES)
    elif columns.strip():
        names = [_known(name.strip()) for name in columns.split(",")]
    else:
        names = [name for name in TYPES if name not in ON_REQUEST]
    if len(set(names)) != len(names):
        raise OptionError(f"Option 'columns' names a column twice: {columns}")
    return StructType([StructField(name, TYPES[name]) for name in names])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema of a query -> the Arrow schema of its record batches. Raises OptionError for unknown columns or types."""
    for field in schema.fields:
        want = TYPES[_known(field.name)].simpleString()
        have = field.dataType.simpleString()
        if have != want:
            raise OptionError(f"Column {field.name!r} is {want}, the schema of the query says {have}; cast it after reading.")
    return to_arrow_schema(schema, timezone="UTC")


def _known(name: str) -> str:
    if name not in TYPES:
        raise OptionError(f"There is no column {name!r}.{did_you_mean(name, TYPES)} The columns are: {', '.join(TYPES)}.")
    return name


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A text that suggests the nearest known name; "" when none is near."""
    by_folded = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_folded, n=1)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""
