"""What is published about a table: noisy answers with their law, and exact answers."""

from __future__ import annotations

from bayesdp.measurements.censoring import held_back
from bayesdp.measurements.checks import described
from bayesdp.measurements.exact import SIGNS, Exact
from bayesdp.measurements.measured import Measured
from bayesdp.measurements.suppression import suppressed, top_coded
from bayesdp.measurements.thresholds import thresholded

__all__ = ["SIGNS", "Exact", "Measured", "described", "held_back", "suppressed", "thresholded", "top_coded"]
