"""Results of a comparison: a table on the terminal, and Markdown rows that replace those of earlier runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.generator import Figures
from benchmarks.shapes import SHAPES, Shape

FLAWS = ("errors", "lost", "duplicates", "disorder", "early")
HEADS = {
    "rocketmq": ("headgate", "apache"),
    "mqtt": ("headgate", "mosquitto", "mochi", "nats"),
    "edge": ("headgate",),
}
TITLES = {"headgate": "Headgate", "apache": "Apache", "mosquitto": "mosquitto", "mochi": "mochi-mqtt", "nats": "NATS"}


@dataclass
class Finding:
    """All rounds of one shape: figures by side, and why a side has none."""

    name: str
    durability: str
    rounds: dict[str, list[Figures]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    rate: int = 0

    @property
    def shape(self) -> Shape:
        """The load."""
        return SHAPES[self.name]


def _key(shape: Shape) -> str:
    """Name of the figure that is compared."""
    if shape.unit == "KB a connection":
        return "kb"
    return "p99_us" if shape.unit in ("latency", "lateness") else "cpu_us"


def middle(rounds: Sequence[Figures], key: str) -> float:
    """The median over the rounds."""
    return statistics.median(figures[key] for figures in rounds)


def table(found: Finding) -> str:
    """The table for the terminal."""
    shape, key = found.shape, _key(found.shape)
    rate = f", {found.rate:,}/s" if found.rate else ""
    lines = [f"\n{found.name}, {found.durability}: {shape.text}; {shape.flying}, {shape.size} bytes{rate}"]
    unit = shape.unit if key != "p99_us" else f"p99 us, {shape.unit}"
    lines.append(f"{'side':11}{'rounds':>7}{unit:>34}{'ratio':>8}{'a second':>11}"
                 f"{'p50 ms':>10}{'p99 ms':>10}{'p99.9 ms':>10}{'max ms':>10}{'MB':>7}{'load us':>9}")  # fmt: skip
    ours = found.rounds.get("headgate", [])
    for side, rounds in found.rounds.items():
        if not rounds:
            continue
        values = sorted(figures[key] for figures in rounds)
        spread = f"{statistics.median(values):,.1f} ({values[0]:,.1f} to {values[-1]:,.1f})"
        ratio = f"{statistics.median(values) / middle(ours, key):.2f}" if ours and middle(ours, key) else ""
        tails = [f"{middle(rounds, tail) / 1000:,.2f}" for tail in ("p50_us", "p99_us", "p999_us", "max_us")]
        memory = f"{middle(rounds, 'anonymous_mb'):,.0f}" if "anonymous_mb" in rounds[0] else ""
        lines.append(
            f"{side:11}{len(rounds):>7}{spread:>34}{ratio:>8}{middle(rounds, 'per_second'):>11,.0f}"
            f"{tails[0]:>10}{tails[1]:>10}{tails[2]:>10}{tails[3]:>10}{memory:>7}{middle(rounds, 'own_cpu_us'):>9.1f}"
        )
        lines += [f"{'':11}{note}" for note in _notes(rounds)]
    lines += [f"{side:11}{why}" for side, why in found.failures.items()]
    return "\n".join(lines)


def _notes(rounds: Sequence[Figures]) -> list[str]:
    """Notes of a side: wrong messages, duration of the warm-up, notes of the generator."""
    notes = [f"{flaw}: {sum(figures.get(flaw, 0) for figures in rounds):,.0f}" for flaw in FLAWS
             if any(figures.get(flaw) for figures in rounds)]  # fmt: skip
    if any(figures.get("warm_s", 0) > 5 for figures in rounds):
        warm = ", ".join(f"{figures['warm_messages']:,.0f} in {figures['warm_s']:.0f} s" for figures in rounds)
        notes.append(f"warm-up: {warm}")
    return notes + sorted({str(figures["note"]) for figures in rounds if figures.get("note")})


def _cell(found: Finding, side: str) -> str:
    if side not in found.shape.sides:
        return "n/a"
    rounds = found.rounds.get(side)
    if not rounds:
        return "came to nothing" if side in found.failures else ""
    flaws = [f"{sum(figures.get(flaw, 0) for figures in rounds):,.0f} {flaw}" for flaw in FLAWS
             if any(figures.get(flaw) for figures in rounds)]  # fmt: skip
    key = _key(found.shape)
    if key == "p99_us":
        tails = " / ".join(f"{middle(rounds, tail) / 1000:.2f}" for tail in ("p50_us", "p99_us", _last(found.shape)))
        cell = f"{tails} ms, {middle(rounds, 'cpu_us'):.0f} us"
    else:
        values = sorted(figures[key] for figures in rounds)
        cell = f"{statistics.median(values):.1f}"
        if len(values) > 1:
            cell += f" ({values[0]:.1f}-{values[-1]:.1f})"
        if key == "cpu_us":
            cell += f", {_thousands(middle(rounds, 'per_second'))}/s"
    return "; ".join([cell, *flaws])


def _last(shape: Shape) -> str:
    return "max_us" if shape.unit == "lateness" else "p999_us"


def _thousands(value: float) -> str:
    return f"{value / 1000:.1f} k" if value >= 1000 else f"{value:.0f}"


def row(found: Finding) -> str:
    """One row of Markdown: shape, messages in flight, unit, a cell for each side, and each peer's figure over Headgate's."""
    sides = HEADS[found.shape.family]
    ours = found.rounds.get("headgate")
    ratios = []
    for side in sides[1:]:
        rounds = found.rounds.get(side)
        if ours and rounds and middle(ours, _key(found.shape)):
            ratios.append(f"{middle(rounds, _key(found.shape)) / middle(ours, _key(found.shape)):.1f}")
        else:
            ratios.append("-")
    rate = f", {found.rate:,}/s" if found.rate else ""
    cells = [f"`{found.name}`", found.shape.text + rate, found.shape.flying, *(_cell(found, side) for side in sides)]
    if ratios:
        cells.append(" / ".join(ratios))
    return "| " + " | ".join(cells) + " |"


def _head(family: str) -> list[str]:
    names = ["Name", "Shape", "In flight", *(TITLES[side] for side in HEADS[family])]
    if len(HEADS[family]) > 1:
        names.append("Ratio" if len(HEADS[family]) == 2 else "Ratios")
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def mark(family: str, durability: str) -> str:
    """The comment line above a table that `write` updates."""
    return f"<!-- figures: {family}, {durability} -->"


def write(path: Path, found: Finding) -> None:
    """Put the row into its table of a Markdown file: in place of the shape's old row, else in the order of `--list`. A missing
    table is appended to the file."""
    lines = path.read_text().splitlines() if path.exists() else []
    title = mark(found.shape.family, found.durability)
    if title not in lines:
        lines += ["", title, "", *_head(found.shape.family)]
    start = lines.index(title)
    first = next(at for at in range(start, len(lines)) if lines[at].startswith("|---")) + 1
    end = next((at for at in range(first, len(lines)) if not lines[at].startswith("|")), len(lines))
    rows = {line.split("`")[1]: line for line in lines[first:end] if "`" in line}
    rows[found.name] = row(found)
    order = [name for name in SHAPES if name in rows] + [name for name in rows if name not in SHAPES]
    lines[first:end] = [rows[name] for name in order]
    path.write_text("\n".join(lines).lstrip("\n") + "\n")
