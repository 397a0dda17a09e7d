"""The modules that a node imports at its start, imported by the process that nodes are forked from (warm.py)."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import pkgutil

from gateway.runtime.compiled import activate

activate()

PACKAGES = (
    "gateway.link", "gateway.node", "gateway.pubsub", "gateway.runtime", "gateway.usecase", "gateway.webhooks",
    "protocols.http2", "store",
)  # fmt: skip

for _package in PACKAGES:
    for _module in pkgutil.walk_packages(importlib.import_module(_package).__path__, f"{_package}."):
        importlib.import_module(_module.name)
importlib.import_module("gateway.node.protocols").installed()
for _name in ("uvloop", "zoneinfo", "h2.connection", "typer", "pydantic"):
    if importlib.util.find_spec(_name) is not None:
        importlib.import_module(_name)
if importlib.util.find_spec("pydantic") is not None:
    for _name in ("json_schema", "type_adapter", "types"):  # of the command line, when it is first used
        importlib.import_module(f"pydantic.{_name}")
gc.freeze()  # collections of a node, at its start and later, do not go through these modules
