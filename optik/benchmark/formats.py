"""How a number is written for people: sensible digits, one unit a column, intervals with it.

A column has a kind; the kind knows its unit, how its cells are written, and into which full
precision numbers a cell is taken apart for a CSV file.

    kind       cell                          written                 in a CSV
    text       anything                      as it is                <key>
    count      a whole number                1234                    <key>
    number     a number                      three digits            <key>
    share      (k, n)                        in %: 85.0 [76.7, 90.7] <key>, _n, _share, _lo, _hi
    ratio      Ratio, or a number            0.43 [0.40, 0.46]       <key>, _lo, _hi
    p          a p-value                     0.0042, < 0.001         <key>
    seconds    seconds                       in s, ms or us          <key>_s
    metres     metres                        in m, mm, um or nm      <key>_m
    radians    radians                       in rad, mrad, urad ...  <key>_rad

A cell of the kinds number, seconds, metres and radians may also be a pair (median, p95), written
"15 / 33" and taken apart as <key>_median and <key>_p95 (before the unit).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from optik.benchmark.statistics import Ratio, wilson

Kind = Literal["text", "count", "number", "share", "ratio", "p", "seconds", "metres", "radians"]
_SYMBOLS = {"seconds": "s", "metres": "m", "radians": "rad"}
_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
MISSING = "–"


def significant(value: float, digits: int = 3) -> str:
    """Writes a number with so many significant digits, without an exponent where that reads well.

    Whole digits are never dropped: 12345.6 is "12346", 0.012345 is "0.0123", 1.2e-9 is "1.20e-09".
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4 or magnitude > 8:
        return f"{value:.{digits - 1}e}"
    text = f"{value:.{max(0, digits - 1 - magnitude)}f}"
    # 9.999 rounds up to 10.00: one digit too many.
    if len(text.lstrip("-").replace(".", "").lstrip("0")) > max(digits, magnitude + 1):
        text = f"{value:.{max(0, digits - 2 - magnitude)}f}"
    return text


def share_text(k: int, n: int, *, confidence: float = 0.95) -> str:
    """Writes k of n in percent with its Wilson interval, with the digits that n can carry."""
    if n == 0:
        return MISSING
    digits = max(0, min(3, math.ceil(math.log10(n)) - 1))
    lo, hi = wilson(k, n, confidence=confidence)
    return (
        f"{_percent(k / n, digits, k == n)} "
        f"[{_percent(lo, digits, True)}, {_percent(hi, digits, k == n)}]"
    )


def _percent(share: float, digits: int, may_be_all: bool) -> str:
    text = f"{100 * share:.{digits}f}"
    if not may_be_all and float(text) == 100.0:  # 9999 of 10 000 must not read 100 %
        text = f"{math.floor(share * 100 * 10**digits) / 10**digits:.{digits}f}"
    return text


def p_text(p: float) -> str:
    """Writes a p-value with two digits, and "< 0.001" below that."""
    if math.isnan(p):
        return MISSING
    if p < 0.001:
        return "< 0.001"
    return f"{p:.1g}" if p < 0.01 else f"{p:.2g}"


@dataclass(frozen=True)
class Scale:
    """The unit in which a whole column is written.

    Attributes:
        factor: what one of the unit is in the base unit.
        unit: as it stands in the heading; empty for a pure number.
    """

    factor: float = 1.0
    unit: str = ""


def scale_of(kind: Kind, cells: Sequence[Any]) -> Scale:
    """Picks the unit in which the middle one of the cells is at least 1."""
    if kind == "share":
        return Scale(unit="%")
    if kind not in _SYMBOLS:
        return Scale()
    firsts = [c[0] if isinstance(c, tuple) else c for c in cells if c is not None]
    finite = sorted(abs(float(c)) for c in firsts if math.isfinite(c) and float(c) != 0)
    middle = finite[len(finite) // 2] if finite else 1.0
    for factor, prefix in _PREFIXES:
        if middle >= factor:
            return Scale(factor, prefix + _SYMBOLS[kind])
    return Scale(_PREFIXES[-1][0], _PREFIXES[-1][1] + _SYMBOLS[kind])


def cell_text(kind: Kind, value: Any, scale: Scale, *, confidence: float = 0.95) -> str:
    """Writes one cell."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if kind == "text":
        return str(value)
    if kind == "count":
        return f"{int(value)}"
    if kind == "share":
        return share_text(int(value[0]), int(value[1]), confidence=confidence)
    if kind == "p":
        return p_text(float(value))
    if kind == "ratio" and isinstance(value, Ratio):
        if value.n < 2:
            return significant(value.ratio)
        return f"{significant(value.ratio)} [{significant(value.lo)}, {significant(value.hi)}]"
    write = _plain if kind == "number" else significant
    values = value if isinstance(value, tuple) else (value,)
    return " / ".join(write(float(v) / scale.factor) for v in values)


def _plain(value: float) -> str:
    """A whole number below a million without decimals, else three significant digits."""
    return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else significant(value)


def raw_cells(kind: Kind, key: str, value: Any, *, confidence: float = 0.95) -> dict[str, Any]:
    """Takes a cell apart into named numbers at full precision, in base units, for a CSV."""
    if kind == "share":
        cells: dict[str, Any] = {f"{key}{s}": None for s in ("", "_n", "_share", "_lo", "_hi")}
        if value is not None:
            k, n = int(value[0]), int(value[1])
            cells |= {key: k, f"{key}_n": n}
            if n:
                lo, hi = wilson(k, n, confidence=confidence)
                cells |= {f"{key}_share": k / n, f"{key}_lo": lo, f"{key}_hi": hi}
        return cells
    if kind == "ratio":
        if value is None:
            return {key: None, f"{key}_lo": None, f"{key}_hi": None}
        if not isinstance(value, Ratio):
            value = Ratio(float(value), math.nan, math.nan, 1)
        return {key: value.ratio, f"{key}_lo": value.lo, f"{key}_hi": value.hi}
    unit = f"_{_SYMBOLS[kind]}" if kind in _SYMBOLS else ""
    if isinstance(value, tuple):
        return {f"{key}_median{unit}": value[0], f"{key}_p95{unit}": value[1]}
    return {key + unit: value}
