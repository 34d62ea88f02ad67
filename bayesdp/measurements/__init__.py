"""What is published about a table: noisy answers with their law, and exact answers."""

from bayesdp.measurements.parts import SIGNS, Exact, Measured, held_back
from bayesdp.measurements.suppression import suppressed, thresholded, top_coded
from bayesdp.queries.query import described

__all__ = ["SIGNS", "Exact", "Measured", "described", "held_back", "suppressed", "thresholded", "top_coded"]
