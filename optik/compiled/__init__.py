"""The fast core: kinematics, residual, box QP, descent and starts in Numba."""
