"""What is being done to a solve, as one number for whoever watches from outside.

state = number * PHASES + phase
"""

from __future__ import annotations

PHASES = 8
IDLE, SETTING_UP, WARMING_UP, SOLVING, IN_BULK = range(5)
