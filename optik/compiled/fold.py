"""Folding (stub until written)."""

from __future__ import annotations


def folded_front(chains, records, n):
    raise NotImplementedError
