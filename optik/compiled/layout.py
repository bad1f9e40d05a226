"""Where every number stands in the flat arrays that the kernels share.

A kernel call unpacks each array argument at a cost of about 50 ns, so that everything that is fixed
for a prepared solver lies in one array, `fixed`, and everything that a solve scribbles on in one
array, `w`.

    fixed   HEADER numbers | lower | upper | sampling lower | sampling upper | strides | chains |
            table
    w       vectors | H | L | states | goals, each LANES times |
            poses and Jacobians of the frames, then of the targets | sines |
            one lane's quadratic program, where there are several lanes |
            distances to the table's rows, LANES times | room to find the least of them

A module works on LANES problems at once, one unless it is folded for a batch.  Entry `place` of the
first part of `w`, goals included, is at LANES * place + l for problem l, so that a loop over l runs
in vector registers.  The places after it are given by functions of general.py.

The constants here are written into every generated module, so that changing one compiles everything
anew.  A function argument called `n` is the length of q.
"""

from __future__ import annotations

from typing import Any

HEADER = 32
# Indices into the header of `fixed`.
F_SIZE = 0  # n
F_TARGETS = 1  # number of targets
F_FRAMES = 2  # number of frames, targets' and bases' together
F_CHAIN = 3  # offset of the chains
F_TABLE = 4  # offset of the start table
F_ROWS = 5  # rows of the start table, with those that fill up its last block
F_BLOCK = 6  # BLOCK, as a number that the compiler does not know: it keeps the loops over a block
F_APART = 7  # mean squared distance, in ranges, that keeps a start apart from failed ones
F_DAMPING = 8  # mu = damping * cost + damping_floor
F_DAMPING_FLOOR = 9
F_STEP_LIMIT = 10  # largest |d_i| [rad or m]
F_FALL = 11  # the cost must fall by this factor ...
F_PATIENCE = 12  # ... within so many iterations
F_START_STEPS = 13  # largest number of iterations from one start
F_NEAR = 14  # table rows tried before the middle and random starts
F_SEED = 15  # shift of the sequence of random starts
F_METHOD = 16  # 1 where `box_step` makes every step, not only those that met a bound: the projected
F_LOG = 17  # 1 for the logarithm as rotation residual, 0 for the chordal one
F_TABLE_WEIGHT = 18  # squared weight of rotation in the distance to a table row [m^2/rad^2]
F_TRIG = 19  # joints whose sine and cosine the folded kernel takes, rounded up to 4

# Vectors of `w`, in multiples of n; after them come H and L, each n x n, of which the lower
# triangles are used.  `box_step` copies all from W_G to W_D at once.
W_Q = 0  # the configuration, where many kernels leave `W_Q * n +` out
W_G = 1  # J^T e
W_LO = 2  # bounds of the step
W_HI = 3
W_D = 4  # the step
W_R = 5  # 2 n numbers: a Newton step, and the gradient after it
W_FREE = 7  # 1 for joints that may move, 0 for those that are held
W_NEXT = 8  # the configuration to be evaluated next
W_BEST = 9  # the one of least cost so far
W_VECTORS = 10

# States, one number each: what the last evaluation found ...
S_CODE = 0  # GOING, SOLVED or GAVE_UP; EMPTY until the lane's first problem
S_COST = 1
S_POSITION = 2  # largest position error [m]
S_ROTATION = 3  # largest measure of a rotation error (rows.py)
S_CUT = 4  # 1 where the Newton step met a bound and is not the answer
# ... the least cost so far, and the errors there ...
S_BEST = 5
S_BEST_POSITION = 6
S_BEST_ROTATION = 7
# ... what is asked ...
S_POSITION_TOLERANCE = 8
S_ROTATION_TOLERANCE = 9
S_ALLOWED = 10  # iterations from this start
# ... and how far the search has come.
S_ROW = 11  # the problem's row, -1 for an idle lane
S_START = 12  # number of the start
S_USED = 13  # iterations from this start
S_TAKEN = 14  # iterations from earlier ones
S_MARK = 15  # the cost that the next ones are compared with: the last that had fallen enough
S_SINCE = 16  # iterations since it was set
S_RANKED = 17  # 1 once the table has been ranked for this problem
S_TABLE_ROW = 18  # the table row of the last start, -1 for none
STATES = 19

# A target's numbers: position [m], wanted rotation matrix (or body axis, world axis), weights, and
# the rotation as a quaternion.
GOAL = 18
G_ROTATION = 3
G_BODY_AXIS = 3
G_WORLD_AXIS = 6
G_POSITION_WEIGHT = 12
G_ROTATION_WEIGHT = 13
G_QUATERNION = 14

# The chains' numbers: per target; then, for the general kernel alone, per frame, and for each frame
# per joint, with the tool's after those of the last joint (offset x 3, rotation x 9).
TARGET_RECORD = 10  # kind, frame, base (-1: world), masked, mask x 6
FRAME_RECORD = 2  # offset of the first joint's numbers in `fixed`, number of joints
# hinge, index, direct, shift, reference, polynomial x 5, offset x 3, rotation x 9, two of padding
JOINT_RECORD = 24

POSITION, AXIS, POSE = 0, 1, 2  # kinds of target

# A frame's outcome: position x 3, rotation x 9, then the Jacobian, 6 x n.
FRAME_HEAD = 12

# Features of a table row and target: |position|^2, position, then a quaternion for a pose or the
# rotation matrix for an axis.  The table holds the rows' configurations, joint after joint, in
# double precision, then the features in single: in blocks of so many rows, feature after feature.
BLOCK = 64

# How a row ended (the first four, in the order of `Claim`s in batch.py), that a descent goes on, or
# that a lane has none.
SOLVED, GAVE_UP, OUT_OF_STEPS, BROKEN, GOING, EMPTY = 0, 1, 2, 3, 4, 5
CODE_BITS = 4  # a row's word is code + steps * 2^4 + starts * 2^34, the first start not counted
STEP_BITS = 30


def unpacked(word: Any) -> tuple[Any, Any, Any]:
    """Code, steps and starts after the first of a word of a solve, or of an array of words."""
    code, rest = word & ((1 << CODE_BITS) - 1), word >> CODE_BITS
    return code, rest & ((1 << STEP_BITS) - 1), rest >> STEP_BITS
