"""Intervals before a release: what budgets, queries and invariants would mean for users, by simulation."""

from __future__ import annotations

from bayesdp.calibration.designs.designing import design
from bayesdp.calibration.designs.result import Design

__all__ = ["Design", "design"]
