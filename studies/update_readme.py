"""Copies the tables that the studies wrote into the READMEs, between their begin and end marks.

    python studies/update_readme.py [--check]

A mark `<!-- begin STUDY x -->` takes the first table under the heading that starts with "(x)", or with
x and blanks for its hyphens, in studies/results/STUDY/tables.md; `<!-- begin index x -->` takes a table
of headlines.py.  With --check nothing is written, and the exit code is 1 if a README is not what the
results say, times and ratios of times apart: those change with every run.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import headlines

STUDIES = Path(__file__).parent
READMES = (STUDIES.parent / "README.md", STUDIES / "README.md")
TIMED = re.compile(r"\b(ms|us|ns|time|ratio)\b|FK \+ Jacobian")
MARK = re.compile(r"(<!-- begin (\S+) (\S+) -->\n)(.*?)(<!-- end \2 \3 -->)", re.S)


def table(study: str, part: str) -> str:
    if study == "index":
        return headlines.table(part)
    text = (STUDIES / "results" / study / "tables.md").read_text()
    words = re.escape(part.replace("-", " "))
    heading = re.search(rf"^(#+ |\*\*)(\({re.escape(part)}\)|{words}).*$", text, re.M)
    if heading is None:
        raise SystemExit(f"{study}: no heading that starts with ({part}) or {part}")
    rows = []
    for line in text[heading.end() :].splitlines():
        if line.startswith("|"):
            rows.append(line)
        elif rows:
            break
    return "\n".join(rows) + "\n"


def updated(readme: str) -> str:
    return MARK.sub(lambda m: m[1] + "\n" + table(m[2], m[3]) + "\n" + m[5], readme)


def untimed(readme: str) -> str:
    """The same text with the cells of timed columns blanked, and blanks of padding dropped."""
    lines, timed = [], set[int]()
    for line in readme.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|"):
            heads = {i for i, c in enumerate(cells) if TIMED.search(c)}
            timed = heads or timed
            line = "|".join("" if i in timed else c.strip("-:") for i, c in enumerate(cells))
        else:
            timed = set()
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say whether it is up to date")
    check = parser.parse_args().check
    for path in READMES:
        old = path.read_text()
        new = updated(old)
        if not check:
            path.write_text(new)
        elif untimed(old) != untimed(new):
            name = path.relative_to(STUDIES.parent)
            sys.exit(f"{name} is not what studies/results say; run this script")


if __name__ == "__main__":
    main()
