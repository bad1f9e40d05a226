"""The solvers: one method a file, found by looking into this folder.

`SOLVERS` maps every name to its class.  A string stands for a solver wherever one is wanted:
`NAME`, `NAME:option=value,option=value`, or `path.py:MySolver` for one of your own.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from optik.data import is_file
from optik.errors import SolverError, brief, unknown_name
from optik.solvers.base import Deadline, Prepared, Search, Solver

__all__ = ["SOLVERS", "Deadline", "Prepared", "Search", "Solver", "check_class", "parse_solver"]


def _find() -> dict[str, type[Solver]]:
    found: dict[str, type[Solver]] = {}
    for module_info in pkgutil.iter_modules(__path__):
        if module_info.name.startswith("_"):  # shared code that imports a backend
            continue
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        for value in vars(module).values():
            if (
                isinstance(value, type)
                and issubclass(value, Solver)
                and value.__module__ == module.__name__
                and "name" in vars(value)
            ):
                found[value.name] = value
    return dict(sorted(found.items()))


# Importing every file is cheap: a backend (casadi, osqp, ...) is imported where it is prepared.
SOLVERS: Mapping[str, type[Solver]] = _find()
# The classes under their own names, so that optik.solvers.BoxQP works.
globals().update({cls.__name__: cls for cls in SOLVERS.values()})


def __getattr__(name: str) -> Any:
    raise AttributeError(
        f"optik.solvers has no {name!r}; it has {', '.join(c.__name__ for c in SOLVERS.values())}"
    )


def parse_solver(text: str | Solver) -> Solver:
    """Turns `NAME[:option=value,...]` or `path.py:Name[:option=value,...]` into a solver.

    Args:
        text: the string form, or a solver, which is returned as it is.

    Raises:
        UnknownNameError: for a solver or option that does not exist, with the near matches.
        SolverError: for a value of the wrong type or outside its range.
    """
    if isinstance(text, Solver):
        check_class(text)
        return text
    if not isinstance(text, str):
        raise SolverError(
            f"a solver is a Solver or its name, got {brief(text)}; functions are taken by "
            "optik.run, and made a Solver by optik.benchmark.own.as_solver"
        )
    head, _, rest = text.partition(":")
    if head.endswith(".py"):
        name, _, options = rest.partition(":")
        cls: Any = _from_file(Path(head), name)
        if isinstance(cls, Solver):
            return cls
    else:
        if head not in SOLVERS:
            raise unknown_name("solver", head, SOLVERS)
        cls, options = SOLVERS[head], rest
    try:
        return cls(**_options(cls, options))
    except TypeError as error:  # a class of one's own that is not finished
        raise SolverError(f"{head}:{cls.__name__}: {error}") from None


def _options(cls: type[Solver], text: str) -> dict[str, Any]:
    hints = get_type_hints(cls)
    valid = [f.name for f in fields(cls)]
    options: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        key = key.strip().replace("-", "_")
        if key in options:
            raise SolverError(f"{cls.name}: {key} is given twice")
        if key not in valid:
            raise unknown_name(f"option of {cls.name}", key, valid)
        if not equals:
            raise SolverError(f"{cls.name}: write {key}=VALUE, got {part!r}")
        value = value.strip()
        try:
            # "none" is also a word that an option may take, as in hold=none.
            if value.lower() in ("none", "null") and type(None) in get_args(hints[key]):
                options[key] = None
            else:
                options[key] = msgspec.convert(value, hints[key], strict=False)
        except msgspec.ValidationError as error:
            raise SolverError(f"{cls.name}: {key}={value}: {error}") from None
    return options


def _from_file(path: Path, name: str) -> Any:
    if not is_file(path):
        raise SolverError(f"there is no solver file {str(path)!r}")
    module_name = f"optik_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # so that its classes can be pickled
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        sys.modules.pop(module_name, None)
        reason = f"{type(error).__name__}: {error}"
        raise SolverError(f"the solver file {str(path)!r} does not run: {reason}") from error
    candidates = {
        k: v
        for k, v in vars(module).items()
        if isinstance(v, Solver)
        or (isinstance(v, type) and issubclass(v, Solver) and v is not Solver)
    }
    if name not in candidates:
        raise unknown_name(f"solver in {path.name}", name, candidates)
    check_class(candidates[name])
    return candidates[name]


def check_class(solver: Solver | type[Solver]) -> None:
    """Raises SolverError unless a solver, or a subclass of `Solver`, has what a table needs.

    Args:
        solver: the solver or its class.
    """
    cls = solver if isinstance(solver, type) else type(solver)
    if getattr(cls, "__abstractmethods__", None):
        raise SolverError(
            f"the solver {cls.__name__} is abstract: it needs a method prepare; see optik.Solver"
        )
    missing = [word for word in ("name", "summary", "family") if not hasattr(cls, word)]
    if missing:
        raise SolverError(
            f"the solver {cls.__name__} needs a class attribute {' and '.join(missing)}: text, "
            f"such as {missing[0]}: ClassVar[str] = {cls.__name__.lower()!r}"
        )
