"""Makes problem sets again, and compares them with the committed ones.

Two kinds of set.  Those made by forward kinematics (`reachable`, `at_limit`, `near_singular`) come
out again to 1e-12 from their seed alone.  Those selected by a solver's outcome (`clamping_fails`,
`unreachable`) are picked from a pool of candidates that comes out again, row by row; each row says
which candidate it is (`pool_index`), and another platform may pick differently in a few rows.
A set whose generator is `listed` has no source but its rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optik.data import data_folder
from optik.errors import ProblemSetError, unknown_name
from optik.generators import GENERATORS, SELECTED_BY_A_SOLVER
from optik.pose import Array
from optik.set_files import (
    QUATERNION_COLUMNS,
    PoolRecord,
    SetFile,
    digest_of,
    read_columns,
    read_spec,
)

FK_TOLERANCE = 1e-12
POOL_TOLERANCE = 0.01


@dataclass(frozen=True)
class Regeneration:
    """What came of generating a set.

    Attributes:
        name: the set.
        count: its number of problems.
        written: whether the CSV and the digest were written.
        largest_difference: largest absolute difference to the committed numbers; None if there was
            no committed file, or if rows were picked differently.
        different_rows: ids of committed rows that were not picked again.
        listed: whether the set has no generator but its rows.
    """

    name: str
    count: int
    written: bool
    largest_difference: float | None = None
    different_rows: tuple[int, ...] = ()
    listed: bool = False

    def __str__(self) -> str:
        """One or two sentences for the command line."""
        if self.listed:
            return f"{self.name}: {self.count} problems, listed as they are; nothing is generated."
        text = f"{self.name}: {self.count} problems"
        if self.different_rows:
            ids = ", ".join(map(str, self.different_rows))
            text += f"; {len(self.different_rows)} rows were not picked again: {ids}"
        if self.largest_difference is not None:
            text += f"; largest difference to the committed file {self.largest_difference:.1e}"
        return text + ("; written." if self.written else ".")


def generate(name: str, *, write: bool = False, folder: Path | None = None) -> Regeneration:
    """Generates a set from its TOML; writes it if it is new, else compares it with the committed.

    Args:
        name: the set; `<folder>/<name>.toml` must exist, its CSV need not.
        write: replace a committed file by what was generated.
        folder: where the set is; the bundled problems if None.

    Returns:
        How the generated rows compare with the committed ones.

    Raises:
        ProblemSetError: if a set made by forward kinematics does not come out again to 1e-12, or
            one selected by a solver differs in more than 1 % of its rows.
    """
    place = data_folder("problems") if folder is None else folder
    spec = read_spec(name, place)
    path = place / f"{name}.csv"
    if spec.generator == "listed":
        content = path.read_bytes()
        if write or not spec.digest:
            _record(place / f"{name}.toml", digest_of(content), None)
        return Regeneration(name, spec.count, write or not spec.digest, listed=True)
    if spec.generator not in GENERATORS:
        raise unknown_name("generator", spec.generator, (*GENERATORS, "listed"))
    robot = spec.load_robot()
    rows = GENERATORS[spec.generator](spec, robot)
    content = rows.csv()
    if write or not path.is_file():
        path.write_bytes(content)
        _record(place / f"{name}.toml", digest_of(content), rows.pool)
        return Regeneration(name, len(rows), True)
    committed = read_columns(path, path.read_bytes(), spec, robot)
    return _compared(name, spec, committed, read_columns(path, content, spec, robot))


def _compared(
    name: str, spec: SetFile, committed: dict[str, Array], made: dict[str, Array]
) -> Regeneration:
    count = len(made["id"])
    different: tuple[int, ...] = ()
    if spec.generator in SELECTED_BY_A_SOLVER:
        again = np.isin(committed["pool_index"], made["pool_index"])
        different = tuple(int(i) for i in committed["id"][~again])
        if len(different) > POOL_TOLERANCE * spec.count:
            raise ProblemSetError(
                f"{name}: {len(different)} of {spec.count} rows were not picked again, more than "
                f"{POOL_TOLERANCE:.0%}: {', '.join(map(str, different))}"
            )
        both = np.isin(made["pool_index"], committed["pool_index"])
        committed = {c: v[again] for c, v in committed.items()}
        made = {c: v[both] for c, v in made.items()}
    if count != spec.count or committed.keys() != made.keys():
        raise ProblemSetError(f"{name}: the generated columns or rows are not those committed")
    if QUATERNION_COLUMNS[0] in made:  # q and -q are the same rotation
        _same_signs(committed, made)
    columns = [c for c in made if c != "id"]
    worst = max(float(np.abs(made[c] - committed[c]).max()) for c in columns)
    if worst > FK_TOLERANCE:
        raise ProblemSetError(
            f"{name}: the generated numbers differ from the committed ones by {worst:.2e}, more "
            f"than {FK_TOLERANCE:.0e}; `optik generate {name} --write` replaces the file"
        )
    return Regeneration(name, count, False, worst, different)


def _same_signs(committed: dict[str, Array], made: dict[str, Array]) -> None:
    dot = np.sum([committed[c] * made[c] for c in QUATERNION_COLUMNS], axis=0)
    for c in QUATERNION_COLUMNS:
        made[c] = made[c] * np.where(dot < 0, -1.0, 1.0)


def _record(path: Path, digest: str, pool: PoolRecord | None) -> None:
    """Writes the digest and the pool into a set's TOML, and leaves everything else as it is."""
    text = path.read_text(encoding="utf-8")
    line = f'digest = "{digest}"'
    if re.search(r"^digest\s*=.*$", text, flags=re.M):
        text = re.sub(r"^digest\s*=.*$", line, text, count=1, flags=re.M)
    else:  # before the first table: below it the line would belong to that table
        head, bracket, tables = text.partition("\n[")
        text = head.rstrip("\n") + f"\n{line}\n" + (f"\n[{tables}" if bracket else "")
    text = re.sub(r"\n*^\[pool\]\n(?:(?!\[).*\n?)*", "\n", text, flags=re.M).rstrip("\n") + "\n"
    if pool is not None:
        rate = f"{pool.rate:.4f}"
        text += f"\n[pool]\nsize = {pool.size}\nselected = {pool.selected}\nrate = {rate}\n"
    path.write_text(text, encoding="utf-8")
