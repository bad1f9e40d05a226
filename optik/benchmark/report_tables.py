"""The bench's tables as HTML that sorts: the same description, a key for every cell, interval bars.

A share is drawn as well as written: a bar from the lower to the upper end of its Wilson interval
and a tick at the share itself.
"""

from __future__ import annotations

import math
from typing import Any

from markupsafe import Markup, escape

from optik.benchmark.rendering import Column, Table
from optik.benchmark.statistics import Ratio, wilson

# A click on a heading starts with the end that people look for.
_LARGEST_FIRST = ("share",)


def to_html(table: Table, *, links: dict[int, int] | None = None, colours: bool = True) -> Markup:
    """Writes a table as HTML whose headings sort it, with its notes below.

    Args:
        table: the table.
        links: row to the number of the case that a click on its first cell shows.
        colours: draw the key colour of a solver before its name; its number is looked up in the
            row under "colour".

    Returns:
        A figure with the table; every text in it is escaped.
    """
    heads = []
    for column, heading in zip(table.columns, table.headings(), strict=True):
        first = "descending" if column.kind in _LARGEST_FIRST else "ascending"
        heads.append(
            Markup('<th scope="col" class="{}" data-first="{}" aria-sort="none">').format(
                column.kind, first
            )
            + Markup('<button type="button">{}</button></th>').format(heading)
        )
    # A group's name is repeated here, because sorting tears groups apart.
    flat = Table(
        table.name, table.title, table.columns, table.rows, table.notes, table.best,
        confidence=table.confidence,
    )  # fmt: skip
    body = []
    for i, (row, texts) in enumerate(zip(table.rows, flat.texts(), strict=True)):
        cells = [
            _cell(column, row, text, (i, column.key) in table.best, table.confidence, colours)
            for column, text in zip(table.columns, texts, strict=True)
        ]
        if links and i in links:
            cells[0] = Markup(
                '<td data-v="{}"><a data-case="{}" href="#explorer">{}</a></td>'
            ).format(_key(row.get(table.columns[0].key)), links[i], texts[0])
        rule = Markup(' class="rule"') if table.starts_group(i) else Markup("")
        body.append(Markup("<tr{}>").format(rule) + Markup("").join(cells) + Markup("</tr>"))
    notes = [*table.notes]
    if table.best:
        notes.append("Bold: best of its group, and the paired test against every other says so.")
    return (
        Markup(
            '<figure class="table" id="table-{}"><div class="scroll"><table class="sortable">'
        ).format(table.name)
        + Markup("<caption>{}</caption><thead><tr>").format(table.title)
        + Markup("").join(heads)
        + Markup("</tr></thead><tbody>")
        + Markup("").join(body)
        + Markup("</tbody></table></div><figcaption>")
        + Markup("<br>").join(escape(note) for note in notes)
        + Markup("</figcaption></figure>")
    )


def _cell(
    column: Column, row: Any, text: str, best: bool, confidence: float, colours: bool
) -> Markup:
    value = row.get(column.key)
    inner = escape(text)
    if best:
        inner = Markup("<strong>{}</strong>").format(inner)
    if column.kind == "share" and value is not None:
        inner = _interval(int(value[0]), int(value[1]), confidence) + inner
    if colours and column.key == "solver" and row.get("colour") is not None:
        inner = (
            Markup('<i class="key" style="background:var(--s{})"></i>').format(row["colour"])
            + inner
        )
    return (
        Markup('<td class="{}" data-v="{}">').format(column.kind, _key(value))
        + inner
        + Markup("</td>")
    )


def _interval(k: int, n: int, confidence: float) -> Markup:
    if n == 0:
        return Markup("")
    lo, hi = wilson(k, n, confidence=confidence)
    return Markup(
        '<span class="interval" title="{} of {}"><b style="left:{:.2f}%;width:{:.2f}%"></b>'
        '<i style="left:{:.2f}%"></i></span>'
    ).format(k, n, 100 * lo, 100 * (hi - lo), 100 * k / n)


def _key(value: Any) -> str:
    """What a cell is sorted by: a number at full precision, or its text; empty if missing."""
    if isinstance(value, Ratio):
        value = value.ratio
    elif isinstance(value, tuple):
        value = value[0] / value[1] if len(value) == 2 and _is_share(value) else value[0]
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return str(value)


def _is_share(value: tuple[Any, Any]) -> bool:
    return isinstance(value[0], int) and isinstance(value[1], int) and value[1] > 0
