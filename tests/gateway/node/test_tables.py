"""The tables of the configuration: what is shown, what is refused, and what the documentation says of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from domain.errors import ConfigError
from gateway.node.composition import known
from gateway.node.protocols import installed
from gateway.node.reference import defaults, page
from gateway.node.settings import Config, load
from gateway.node.settings_tables import declared

ROOT = Path(__file__).parents[3]
KNOWN = known()
TABLES = installed().tables
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
EXAMPLES = [
    pytest.param(example, id=f"{page.stem}-{at}")
    for page in PAGES
    for at, example in enumerate(re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL))
]


def read(folder: Path, text: str) -> Config:
    file, admin = folder / "headgate.toml", folder / "admin"
    admin.write_text("root:a password\n")
    file.write_text(text.replace("/etc/headgate/admin", str(admin)))
    return load({}, {}, KNOWN, str(file))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 5


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_of_the_documentation_is_accepted(tmp_path: Path, example: str) -> None:
    assert defaults(read(tmp_path, example), KNOWN, 1)


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_setting_of_a_protocol_is_shown_as_it_stands_by_default(table: str) -> None:
    shown = {name: value for name, value, source in defaults(Config(), KNOWN, 1) if name.startswith(f"{table}.")}
    assert set(shown) == {f"{table}.{name}" for name in declared(TABLES[table])}


def test_what_is_given_is_no_default_and_values_are_written_as_toml_has_them(tmp_path: Path) -> None:
    config = read(tmp_path, "[mqtt]\nqos_max = 1\n")
    shown = {name: (value, source) for name, value, source in (*config.rows(), *defaults(config, KNOWN, 1))}
    assert shown["mqtt.qos_max"][0] == "1"
    assert "headgate.toml" in shown["mqtt.qos_max"][1]
    assert shown["mqtt.retain_available"] == ("true", "default")
    assert shown["websocket.origins"] == ("[]", "default")


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[mqtt]\nqos_maximum = 1", "qos_max"),
        ("[http2]\nanything = 1", "no settings"),
        ("[policy]\nshare_strategy = 'random'", "least-inflight, sticky, round-robin"),
    ],
)
def test_a_slip_in_a_table_is_refused_with_the_nearest_name(tmp_path: Path, table: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        defaults(read(tmp_path, table + "\n"), KNOWN, 1)


@pytest.mark.parametrize("table", [table for table in sorted(TABLES) if declared(TABLES[table])])
def test_operators_are_told_the_name_of_every_setting(table: str) -> None:
    rows = [line for line in (ROOT / "docs" / "operations.md").read_text().splitlines() if line.startswith(f"| `[{table}]`")]
    named = set(re.findall(r"`([a-z0-9_]+)`", " ".join(rows)))
    assert named == set(declared(TABLES[table]))


def test_page_of_all_settings_is_what_the_command_prints() -> None:
    """`headgate config reference > docs/configuration.md` makes it so again."""
    assert (ROOT / "docs" / "configuration.md").read_text() == page(KNOWN)
