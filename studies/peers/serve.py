"""The worker's side of the conversation with `optik.solvers.peers_worker`; standard library only.

The first line of standard input describes the robot, every further one a problem; each is answered
by one line.  What a peer prints goes to standard error, so that it cannot garble an answer.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]
Solve = Callable[[dict[str, Any]], Answer]


def serve(build: Callable[[dict[str, Any]], Solve]) -> None:
    """Answers until standard input ends.

    Args:
        build: takes the robot: urdf (a path), base and tip (links), joints (names, from the base),
            lower and upper, options (a mapping from the command), iterations, seconds, tolerance
            (position [m], rotation [rad]).  Returns what solves a problem: position, rotation
            (3 x 3), quaternion (wxyz), q0; the answer holds q (or None) and converged, and may
            hold iterations and message.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def answer(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")

    try:
        solve = build(json.loads(sys.stdin.readline()))
    except Exception as error:
        traceback.print_exc()
        answer(error=f"{type(error).__name__}: {error}")
        return
    answer(ready=True)
    for line in sys.stdin:
        problem = json.loads(line)
        began = time.perf_counter()
        try:
            found = solve(problem)
        except Exception as error:
            answer(error=f"{type(error).__name__}: {error}")
            continue
        q = found.pop("q")
        answer(
            q=None if q is None else [float(v) for v in q],
            seconds=time.perf_counter() - began,
            **found,
        )
