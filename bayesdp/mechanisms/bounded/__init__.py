"""Mechanisms for values within public bounds: counts, statistics, proportions and covariance matrices."""
