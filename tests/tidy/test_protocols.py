"""The folders of protocols: one list of file names for all of them (protocols/README.md)."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

from tests.tidy.source import ROOT, sources

OTHER_NAMES = {
    "ack": "settle",
    "auth": "access",
    "consume": "receive",
    "entrance": "access",
    "errors": "status",
    "give_back": "settle",
    "inbound": "send",
    "produce": "send",
    "server": "connection",
}
"""Names that have been, or might be, used for what the list calls by another name."""

HOMES = {"Adapter": "adapter", "Factory": "adapter", "Connection": "connection", "Endpoint": "endpoint"}
"""How a public class's name ends -> the file that it is in."""


def folders() -> list[Path]:
    """The folders that entry points name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    targets = project["entry-points"]["gateway.protocols"].values()
    return sorted(ROOT / "protocols" / target.split(".")[1] for target in targets)


def test_every_protocol_has_an_adapter_and_a_page() -> None:
    wanted = [folder / name for folder in folders() for name in ("adapter.py", "README.md")]
    assert [str(path.relative_to(ROOT)) for path in wanted if not path.exists()] == []


def test_no_file_has_another_name_for_what_the_list_names() -> None:
    wrong = [path for folder in folders() for path in folder.glob("*.py") if path.stem in OTHER_NAMES]
    assert [f"{path.relative_to(ROOT)}: {OTHER_NAMES[path.stem]}.py" for path in wrong] == []


def test_adapters_and_connections_are_in_the_files_that_have_their_names() -> None:
    wrong: list[str] = []
    for source in sources():
        path = ROOT / source.path
        if path.parent not in folders():
            continue
        for node in source.tree.body:
            if not isinstance(node, ast.ClassDef) or any("Protocol" in ast.unparse(base) for base in node.bases):
                continue
            home = next((file for ending, file in HOMES.items() if node.name.endswith(ending)), path.stem)
            if home != path.stem and not node.name.startswith("_"):
                wrong.append(f"{source.path}: class {node.name} belongs in {home}.py")
    assert wrong == []


def test_the_page_of_a_protocol_names_all_its_files() -> None:
    wrong: list[str] = []
    for folder in folders():
        page = (folder / "README.md").read_text("utf-8")
        files = [path.name for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]
        wrong += [f"{folder.name}/README.md does not name {name}" for name in files if name not in page]
    assert wrong == []


def test_the_list_names_only_files_that_a_protocol_has() -> None:
    table = (ROOT / "protocols" / "README.md").read_text("utf-8").split("|---|---|")[1]
    listed = {name for line in table.splitlines() for name in re.findall(r"\w+\.py", line.split("|")[1] if "|" in line else "")}
    assert [name for name in sorted(listed) if not any(any(folder.rglob(name)) for folder in folders())] == []
