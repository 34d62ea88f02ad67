"""The calibration matrix: every mechanism against two priors and two sets of invariants (`make calibration`)."""
