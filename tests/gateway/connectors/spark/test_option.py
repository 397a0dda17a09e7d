"""Options and columns: accepted values, and the error texts for other values."""

from __future__ import annotations

import re

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from gateway.client.security import KeyPlace, Tls
from gateway.connectors.spark import column, option
from gateway.connectors.spark.failure import OptionError


def test_names_come_in_any_case_and_have_defaults() -> None:
    found = option.parse({"TOPICS": "a, b,a", "NameServer": "h:1"}, streaming=False)
    assert (found.topics, found.nameserver, found.starting, found.ending) == (("a", "b"), "h:1", "earliest", "latest")
    assert (found.fail_on_data_loss, found.permissive, found.trigger_rows) == (True, False, 0)


def test_the_path_of_load_is_the_topic() -> None:
    assert option.parse({"path": "orders"}, streaming=True).topics == ("orders",)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "Say what to read"),
        ({"topic": "a", "subscribePattern": "b"}, "one of them"),
        ({"topic": "a", "topics": "b"}, "are the same"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"topic": "a", "startingOfsets": "latest"}, "Did you mean 'startingOffsets'?"),
        ({"topic": "a", "endingOffsets": "latest"}, "It is an option of spark.read."),
        ({"topic": "a", "startingOffsets": "last"}, "'earliest', 'latest' or JSON such as"),
        ({"topic": "a", "startingOffsets": "latest", "startingTimestamp": "1"}, "exclude each other"),
        ({"topic": "a", "maxOffsetsPerTrigger": "0"}, "whole number of at least 1, not '0'"),
        ({"topic": "a", "maxOffsetsPerTrigger": "1.5"}, "whole number"),
        ({"topic": "a", "failOnDataLoss": "maybe"}, "'true' or 'false', not 'maybe'"),
        ({"topic": "a", "mode": "DROPMALFORMED"}, "FAILFAST or PERMISSIVE"),
    ],
)
def test_wrong_options_of_a_stream_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        option.parse(given, streaming=True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffsets": "latest"}, "cannot be 'latest'"),
        ({"endingOffsets": "earliest"}, "cannot be 'earliest'"),
        ({"endingOffsets": "{}", "endingTimestamp": "1"}, "exclude each other"),
        ({"maxOffsetsPerTrigger": "5"}, "It is an option of spark.readStream."),
    ],
)
def test_wrong_options_of_a_batch_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        option.parse({"topic": "a"} | given, streaming=False)


def test_tls_and_the_access_key_are_given_by_names_of_files_and_variables() -> None:
    found = option.parse({"topic": "a", "tls": "true", "tlsCaFile": "/ca.pem", "accessKeyFile": "/key"}, streaming=True)
    assert (found.tls, found.key) == (Tls("/ca.pem"), KeyPlace(file="/key"))
    found = option.parse({"topic": "a", "tls": "true", "accessKeyEnv": "SPARK_KEY"}, streaming=False)
    assert (found.tls, found.key) == (Tls(), KeyPlace(variable="SPARK_KEY"))
    assert option.parse({"topic": "a", "tls": "false"}, streaming=False).tls is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tlsCaFile": "/ca.pem"}, "used with option tls=true only"),
        ({"tls": "true", "tlsKeyFile": "/key.pem"}, "give option 'tlsCertificateFile' too"),
        ({"accessKeyFile": "/key", "accessKeyEnv": "KEY"}, "exclude each other"),
        ({"tlsCAfiel": "/ca.pem"}, "Did you mean 'tlsCaFile'?"),
    ],
)
def test_wrong_options_of_tls_and_access_are_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=re.escape(says)):
        option.parse({"topic": "a"} | given, streaming=False)


@pytest.mark.parametrize(
    "name",
    [
        "nameserver",
        "accessKey",
        "secretKey",
        "password",
        "token",
        "SecurityToken",
        "accessKeyFile",
        "accessKeyEnv",
        "signature",
    ],
)
def test_a_secret_as_an_option_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(OptionError, match=re.escape("Spark keeps options in plans and logs. Write NAME:PASSWORD")) as caught:
        option.parse({"topic": "a", name: "alice:wonder/land@node"}, streaming=False)
    assert "wonder" not in str(caught.value)


def test_columns_are_chosen_by_name_in_any_order() -> None:
    assert column.struct("body, topic").fieldNames() == ["body", "topic"]
    assert column.struct("").fieldNames() == [name for name in column.TYPES if name not in column.ON_REQUEST]
    assert column.struct("ALL").fieldNames() == list(column.TYPES)


def test_unknown_columns_are_named() -> None:
    with pytest.raises(OptionError, match=r"no column 'Body'\. Did you mean 'body'\?"):
        column.struct("Body")
    with pytest.raises(OptionError, match="names a column twice"):
        column.struct("body,body")
    with pytest.raises(OptionError, match="Column 'body' is binary, the schema of the query says string"):
        column.arrow_schema(StructType([StructField("body", StringType())]))
    with pytest.raises(OptionError, match="no column 'value'"):
        column.arrow_schema(StructType([StructField("value", LongType())]))
