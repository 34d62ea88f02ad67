"""Mechanisms of Semi-DP: noise for what a few records can change while the invariants stay."""
