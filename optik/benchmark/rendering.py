r"""One description of a table, written for the terminal, Markdown, LaTeX and CSV.

    table = Table(
        "headline", "Solved from home",
        (Column("solver", "solver"), Column("solved", "solved", "share", best=True)),
        ({"solver": "clamped-dls", "solved": (85, 100)}, {"solver": "box-qp", "solved": (92, 100)}),
        notes=("100 targets of arm7_lesson",),
        best=frozenset({(1, "solved")}),
    )
    to_terminal(table)   a string, with escape codes only if `colour=True`
    to_markdown(table)   a pipe table
    to_latex(table)      a booktabs table with caption, label and notes
    to_csv(table)        every number at full precision in base units
    write_tables("studies/results/question", [table], title="...")

What is bold is decided by whoever makes the table (`optik.benchmark.tables` asks the paired
tests); nothing here compares numbers.
"""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from optik.benchmark.formats import Kind, cell_text, raw_cells, scale_of
from optik.errors import BenchmarkError

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "µ": r"$\mu$", "∞": r"$\infty$", "–": "--", "<": "$<$", ">": "$>$", "±": r"$\pm$",
    "×": r"$\times$",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        key: the cells' key in the rows, and the name in a CSV.
        title: the heading, without its unit; a line break is kept on a terminal, where width is
            dear, and a space elsewhere.
        kind: what the cells are; see `optik.benchmark.formats`.
    """

    key: str
    title: str
    kind: Kind = "text"


@dataclass(frozen=True)
class Table:
    """What a table says, apart from how it is written.

    Attributes:
        name: file name and label, without spaces.
        title: the caption.
        columns: in order.
        rows: one mapping a row, `Column.key` to value; a missing value is written as a dash.
        notes: lines under the table.
        best: (row, key) of the cells to set in bold.
        group: key of a column whose value is written once for rows that share it, with a rule
            where it changes.
        confidence: level of the intervals of shares.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()
    best: frozenset[tuple[int, str]] = frozenset()
    group: str | None = None
    confidence: float = field(default=0.95, kw_only=True)

    def headings(self, *, lines: bool = False) -> list[str]:
        """Headings with their units; on several lines where a title has them and `lines` is set."""
        found = []
        for column in self.columns:
            unit = scale_of(column.kind, self._cells(column)).unit
            first, *rest = column.title.split("\n")
            parts = [f"{first} [{unit}]" if unit else first, *rest]
            found.append(("\n" if lines else " ").join(parts))
        return found

    def texts(self) -> list[list[str]]:
        """Every cell as written, without bold."""
        scales = [scale_of(c.kind, self._cells(c)) for c in self.columns]
        return [
            [
                ""
                if c.key == self.group and self._repeats(i)
                else cell_text(c.kind, row.get(c.key), scale, confidence=self.confidence)
                for c, scale in zip(self.columns, scales, strict=True)
            ]
            for i, row in enumerate(self.rows)
        ]

    def starts_group(self, i: int) -> bool:
        """Whether row `i` opens a group other than the first."""
        return i > 0 and self.group is not None and not self._repeats(i)

    def _repeats(self, i: int) -> bool:
        return (
            i > 0
            and self.group is not None
            and self.rows[i].get(self.group) == self.rows[i - 1].get(self.group)
        )

    def _cells(self, column: Column) -> list[Any]:
        return [row.get(column.key) for row in self.rows]


def to_terminal(table: Table, *, colour: bool = False, width: int | None = None) -> str:
    """Writes a table for a terminal.

    Args:
        table: the table.
        colour: with escape codes; the best cells are then bold, else marked with a star.
        width: characters; as wide as needed if None.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(
        title=table.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False, padding=(0, 1),
    )  # fmt: skip
    for column, heading in zip(table.columns, table.headings(lines=True), strict=True):
        grid.add_column(Text(heading), justify="left" if column.kind == "text" else "right")
    starred = set() if colour else {key for _, key in table.best}
    for i, texts in enumerate(table.texts()):
        if table.starts_group(i):
            grid.add_section()
        cells = []
        for column, text in zip(table.columns, texts, strict=True):
            bold = (i, column.key) in table.best
            # Rich strips every kind of space at the end of a cell; a blank Braille cell is none.
            mark = (" *" if bold else "\u2800\u2800") if column.key in starred else ""
            cells.append(Text(text + mark, style="bold green" if bold else ""))
        grid.add_row(*cells)
    stream = io.StringIO()
    console = Console(
        file=stream, width=width or 400, force_terminal=colour, no_color=not colour,
        color_system="standard" if colour else None,
    )  # fmt: skip
    console.print(grid)
    written = stream.getvalue().replace("\u2800", " ").rstrip()
    lines = [line.rstrip() for line in written.splitlines()]
    notes = [*table.notes]
    if table.best and not colour:
        notes.append(_BEST.format(mark="*"))
    return "\n".join([*lines, *notes])


def to_markdown(table: Table) -> str:
    """Writes a table as Markdown, title and notes included."""
    from tabulate import tabulate

    cells = [
        [
            f"**{_pipe(t)}**" if (i, c.key) in table.best and t else _pipe(t)
            for c, t in zip(table.columns, texts, strict=True)
        ]
        for i, texts in enumerate(table.texts())
    ]
    body = tabulate(
        cells,
        headers=[_pipe(h) for h in table.headings()],
        tablefmt="pipe",
        colalign=["left" if c.kind == "text" else "right" for c in table.columns],
        disable_numparse=True,
    )
    notes = [*table.notes] + ([_BEST.format(mark="Bold")] if table.best else [])
    below = "".join(f"\n- {note}" for note in notes)
    return f"**{table.title}**\n\n{body}\n" + (f"{below}\n" if below else "")


def to_latex(table: Table) -> str:
    r"""Writes a table as LaTeX; needs `\usepackage{booktabs}`."""
    align = "".join("l" if c.kind == "text" else "r" for c in table.columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(table.title)}}}",
        rf"  \label{{tab:{table.name}}}",
        rf"  \begin{{tabular}}{{{align}}}",
        r"    \toprule",
        "    " + " & ".join(latex_text(h) for h in table.headings()) + r" \\",
        r"    \midrule",
    ]
    for i, texts in enumerate(table.texts()):
        if table.starts_group(i):
            lines.append(r"    \midrule")
        cells = [
            rf"\textbf{{{latex_text(t)}}}" if (i, c.key) in table.best else latex_text(t)
            for c, t in zip(table.columns, texts, strict=True)
        ]
        lines.append("    " + " & ".join(cells) + r" \\")
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    notes = [*table.notes] + ([_BEST.format(mark="Bold")] if table.best else [])
    if notes:
        lines.append(
            r"  \par\smallskip\footnotesize " + " ".join(latex_text(_stop(n)) for n in notes)
        )
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def to_csv(table: Table) -> str:
    """Writes every number of a table at full precision, in base units, one header line."""
    rows = [
        {
            k: v
            for c in table.columns
            for k, v in raw_cells(
                c.kind, c.key, row.get(c.key), confidence=table.confidence
            ).items()
        }
        for row in table.rows
    ]
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue()


def write_tables(
    folder: str | Path,
    tables: Sequence[Table],
    *,
    title: str,
    intro: str = "",
    extra: Mapping[str, str | bytes] | None = None,
) -> Path:
    """Writes tables into a folder, whole or not at all.

    `tables.md` holds them all; `<name>.csv` and `<name>.tex` each one.  All files are written
    beside their places first and moved there only when the last one is complete.

    Args:
        folder: made if it is not there; files of other names are left alone.
        tables: with names that differ.
        title: heading of the Markdown file.
        intro: text under the heading: the command, the machine (`environment_line`).
        extra: further files of the same write, name to content.

    Returns:
        The Markdown file's path.

    Raises:
        BenchmarkError: for two tables of one name.
    """
    names = [t.name for t in tables]
    if len(set(names)) != len(names):
        raise BenchmarkError(f"tables written together need different names, got {names}")
    files: dict[str, str | bytes] = {
        "tables.md": "\n".join(
            [f"# {title}\n", *([intro.rstrip() + "\n"] if intro else []), *map(to_markdown, tables)]
        )
    }
    for table in tables:
        files |= {f"{table.name}.csv": to_csv(table), f"{table.name}.tex": to_latex(table)}
    files |= extra or {}
    write_files(Path(folder), files)
    return Path(folder) / "tables.md"


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Writes files into a folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder) as staging:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (Path(staging) / name).write_bytes(data)
        for name in files:
            os.replace(Path(staging) / name, folder / name)


def latex_text(text: str) -> str:
    """Escapes what LaTeX would read as a command."""
    return "".join(_LATEX.get(character, character) for character in text)


_BEST = "{mark}: best of its group, and the paired test against every other row says so."


def _pipe(text: str) -> str:
    return text.replace("|", r"\|")


def _stop(text: str) -> str:
    return text if text.endswith(".") else text + "."
