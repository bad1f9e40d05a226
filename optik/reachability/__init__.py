"""Proofs that a target is out of reach inside the joint limits."""

from optik.reachability.proof import Proof
from optik.reachability.prove import prove_unreachable

__all__ = ["Proof", "prove_unreachable"]
