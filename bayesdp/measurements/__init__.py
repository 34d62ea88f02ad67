"""What is published about a table: noisy answers with their law, and exact answers."""

from __future__ import annotations

from bayesdp.measurements.exact import SIGNS, Exact, described
from bayesdp.measurements.measured import Measured, held_back
from bayesdp.measurements.suppression import suppressed, thresholded, top_coded

__all__ = ["SIGNS", "Exact", "Measured", "described", "held_back", "suppressed", "thresholded", "top_coded"]
