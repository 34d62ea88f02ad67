"""Invariants: a stack of exact queries, and the linear algebra of what they leave free."""

from __future__ import annotations

from bayesdp.invariants.invariants import COORDINATE_RULES, Invariants

__all__ = ["COORDINATE_RULES", "Invariants"]
