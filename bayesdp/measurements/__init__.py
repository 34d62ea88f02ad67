"""What is published about a table: noisy answers with their law, and exact answers."""

from __future__ import annotations

from bayesdp.measurements.checks import described
from bayesdp.measurements.exact import SIGNS, Exact
from bayesdp.measurements.measured import Measured

__all__ = ["SIGNS", "Exact", "Measured", "described"]
