"""Where every number stands in the flat arrays that the kernels share.

A kernel call unpacks each array argument at a cost of about 50 ns, so that everything that is fixed
for a prepared solver lies in one array, `fixed`, every target in one array, `goal`, and everything
that a solve scribbles on in one array, `w`.

    fixed   HEADER numbers | lower | upper | sampling lower | sampling upper | strides | chains |
            table
    goal    GOAL numbers for each target, then the two tolerances
    w       the frames' poses and Jacobians, then vectors and matrices of the solve

The constants here are written into every generated module; a function argument called `n` is the
length of q.
"""

from __future__ import annotations

HEADER = 32
# Indices into the header of `fixed`.
F_SIZE = 0  # n
F_TARGETS = 1  # number of targets
F_FRAMES = 2  # number of frames, targets' and bases' together
F_CHAIN = 3  # offset of the chains
F_TABLE = 4  # offset of the start table
F_ROWS = 5  # rows of the start table
F_PATIENT = 6  # 1: only the given start, which is never given up while its cost changes
F_DAMPING = 8  # mu = damping * cost + damping_floor
F_DAMPING_FLOOR = 9
F_STEP_LIMIT = 10  # largest |d_i| [rad or m]
F_FALL = 11  # the cost must fall by this factor ...
F_PATIENCE = 12  # ... within so many iterations
F_START_STEPS = 13  # largest number of iterations from one start
F_NEAR = 14  # table rows tried before the middle and random starts
F_SEED = 15  # shift of the sequence of random starts
F_METHOD = 16  # 0 exact box QP, 1 two-metric projection
F_LOG = 17  # 1 for the logarithm as rotation residual, 0 for the chordal one
F_TRIG = 19  # joints whose sine and cosine the folded kernel takes, rounded up to 4
F_TABLE_WEIGHT = 18  # squared weight of rotation in the distance to a table row [m^2/rad^2]

# A target's numbers: position, wanted rotation matrix (or body axis, world axis), weights.
GOAL = 16
G_POSITION = 0
G_ROTATION = 3
G_BODY_AXIS = 3
G_WORLD_AXIS = 6
G_POSITION_WEIGHT = 12
G_ROTATION_WEIGHT = 13
# After the last target: the position tolerance [m] and the measure of the rotation tolerance.

# A chain's numbers, for the general kernel: per target, per frame, then per joint.
TARGET_RECORD = 10  # kind, frame, base (-1: world), masked, mask x 6
FRAME_RECORD = 2  # offset of the first joint's numbers, number of joints
JOINT_RECORD = (
    24  # hinge, index, direct, shift, reference, polynomial x 5, offset x 3, rotation x 9
)
TOOL_RECORD = 12  # offset x 3, rotation x 9

POSITION, AXIS, POSE = 0, 1, 2  # kinds of target

# A frame's outcome in `w`: position x 3, rotation x 9, then the Jacobian, 6 x n.
FRAME_HEAD = 12

FEATURES = 13  # of a table row and target: |position|^2, position, rotation matrix

# How a search ended.
SOLVED, GAVE_UP, OUT_OF_STEPS, BROKEN = 0, 1, 2, 3
CODE_BITS = 4  # a search returns code + steps * 2^4 + starts * 2^34
STEP_BITS = 30
