"""The official Java SDK (`rocketmq-client-java` 5.2.0), compiled with scenarios of this project; packages come from Maven."""

from __future__ import annotations

from pathlib import Path

from tests.interop.workshop import CLIENTS, java_classpath, jvm

PROJECT = CLIENTS / "java" / "grpc"


def compiled(folder: Path) -> list[str]:
    """The beginning of a command line that runs one of our classes, with its home in `folder`; skips without a JDK or Maven."""
    encodings = ("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    return jvm(java_classpath(PROJECT, "the gRPC SDK for Java"), *encodings, f"-Duser.home={folder}")
