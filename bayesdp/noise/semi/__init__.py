"""Noise in the norm of Semi-DP: its unit ball is the hull of all that a number of records can change."""
