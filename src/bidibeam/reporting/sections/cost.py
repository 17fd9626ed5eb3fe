"""What strategies cost: by formula, in counted work, and in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bidibeam.reporting.blocks import Block, Column, Section, Table, text_column
from bidibeam.reporting.numbers import averaged_rows, fixed, number, plain
from bidibeam.reporting.paper import COMPLEXITY, FOOTNOTE_AT, FOOTNOTE_RATIO, sorting_ratio
from bidibeam.reporting.results import Results

WORK = {
    "projected_rows": "rows projected",
    "compared_pairs": "pairs compared",
    "exact_transports": "exact transports",
}
"""Counted work, a source."""
TIMES = {"ms_a_source": "ms a source", "ratio": "to vbs"}
"""Time, a source."""


def cost(results: Results) -> Section | None:
    """Formulas, work and time."""
    analyses = results.analyses("cost")
    if not analyses:
        return None
    facts = analyses[0]
    rows = averaged_rows([one.get("rows") or [] for one in analyses], ["strategy"])
    formulas = averaged_rows([one.get("formulas") or [] for one in analyses], ["strategy"])
    blocks: list[Block] = []
    if rows:
        blocks.append(_measured(facts, rows))
    if formulas:
        blocks.append(_formulas(facts, formulas))
    blocks.append(_papers())
    sentences = [*_sentences(facts, rows, formulas), _footnote()]
    notes = dict.fromkeys(str(one["note"]).strip() for one in analyses if one.get("note"))
    return Section("cost", "Cost", sentences, blocks, notice=" ".join(notes))


def _sentences(
    facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], formulas: Sequence[Mapping[str, Any]]
) -> list[str]:
    measured = {row["strategy"]: number(row.get("ratio")) for row in rows}
    counted = {row["strategy"]: number(row.get("ratio")) for row in formulas}
    name = next((name for name in [*measured, *counted] if name.startswith("bidia")), None)
    if name is None:
        return []
    parts = []
    if (ratio := counted.get(name)) is not None:
        parts.append(f"by formula {name} costs {fixed(ratio, 2)} times what vbs does")
    if (ratio := measured.get(name)) is not None:
        where = f" on {facts['device']}" if facts.get("device") else ""
        parts.append(f"measured{where} it takes {fixed(ratio, 2)} times the time")
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _footnote() -> str:
    at = ", ".join(f"{name} = {value:,}" for name, value in FOOTNOTE_AT.items())
    ratio = sorting_ratio(FOOTNOTE_AT["B"], FOOTNOTE_AT["V"])
    return (
        f"The paper's footnote puts VBS at {FOOTNOTE_RATIO} times BidiA for {at}; its formulas give "
        f"{ratio:.2f} there before any comparison of replies is counted."
    )


def _measured(facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Table:
    """Time, if anybody took it, and counted work."""
    times = TIMES if any(number(row.get(name)) is not None for row in rows for name in TIMES) else {}
    work = [name for name in WORK if any(name in row for row in rows)]
    columns = [
        text_column("strategy"),
        *(Column(label, "time") for label in times.values()),
        *(Column(WORK[name], "work a source") for name in work),
    ]
    cells = [
        [
            row["strategy"],
            *(fixed(row.get(name), 2) for name in times),
            *(_count(row.get(name)) for name in work),
        ]
        for row in rows
    ]
    what = "Measured" if times else "Counted work"
    labels = {"device": "on", "N_B": "N_B =", "sources": "sources:", "turns": "turns:"}
    told = [name for name in labels if facts.get(name) and (times or name not in ("device", "turns"))]
    where = ", ".join(f"{labels[name]} {plain(facts[name])}" for name in told)
    return Table(f"{what} ({where})" if where else what, columns, cells)


def _formulas(facts: Mapping[str, Any], formulas: Sequence[Mapping[str, Any]]) -> Table:
    columns = [text_column("strategy"), text_column("formula"), Column("value"), Column("to vbs")]
    cells = [
        [row["strategy"], str(row.get("formula", "")), _large(row.get("value")), fixed(row.get("ratio"), 3)]
        for row in formulas
    ]
    where = ", ".join(f"{name} = {plain(facts[name])}" for name in ("N_B", "T", "V") if facts.get(name))
    return Table(f"By formula ({where}; natural logarithms)" if where else "By formula", columns, cells)


def _count(value: Any) -> str:
    found = number(value)
    return fixed(value, 0 if found is None or found >= 100 or found.is_integer() else 1)


def _large(value: Any) -> str:
    found = number(value)
    return fixed(value, 0) if found is None or abs(found) < 1e6 else f"{found:.3g}"


def _papers() -> Table:
    columns = [text_column("algorithm"), text_column("complexity")]
    rows = list(COMPLEXITY.items())
    notes = ["V is the size of the vocabulary, B of the beam, T the greatest length."]
    return Table("The paper's formulas", columns, rows, notes, is_folded=True)
