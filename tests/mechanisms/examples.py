"""Mechanisms that release tables: one of each class, and others whose parameters choose between formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayesdp import mechanisms as m
from bayesdp.privacy import approximate_dp, gaussian_dp, tradeoff
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

__all__ = ["BOTH", "LABELS", "MAKES", "TOTAL", "VARIANTS"]
LABELS = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
BOTH = Margins(LABELS, ["county"], ["education"])
TOTAL, COUNTY = Totals(LABELS), Margins(LABELS, ["county"])
CELL = {"county": "Alpha", "education": "Low"}
STACKED = Identity(LABELS) + COUNTY
MAKES: dict[str, Callable[[], Any]] = {
    "CanonicalNoise": lambda: m.CanonicalNoise(LABELS, epsilon=1.0),
    "CorrelatedGaussian": lambda: m.CorrelatedGaussian(TOTAL, mu=0.5),
    "DiscreteGaussian": lambda: m.DiscreteGaussian(LABELS, rho=0.1),
    "DiscreteLaplace": lambda: m.DiscreteLaplace(LABELS, 0.5),
    "ExtendedGaussian": lambda: m.ExtendedGaussian(TOTAL, mu=0.5),
    "ExtendedLaplace": lambda: m.ExtendedLaplace(BOTH, 0.5),
    "KNorm": lambda: m.KNorm(BOTH, 0.5),
    "LatticeGaussian": lambda: m.LatticeGaussian(TOTAL, rho=0.1),
    "LatticeLaplace": lambda: m.LatticeLaplace(BOTH, 0.5),
    "ProjectedGaussian": lambda: m.ProjectedGaussian(BOTH, mu=0.5, query=COUNTY + Identity(LABELS)),
    "ProjectedLaplace": lambda: m.ProjectedLaplace(TOTAL, 0.5),
    "SemiCanonical": lambda: m.SemiCanonical(BOTH, gaussian_dp(0.5), CELL),
    "SemiGaussian": lambda: m.SemiGaussian(BOTH, 0.5),
    "SemiKNorm": lambda: m.SemiKNorm(BOTH, 0.5),
    "SemiLatticeLaplace": lambda: m.SemiLatticeLaplace(BOTH, 0.5),
    "SemiNorm": lambda: m.SemiNorm(BOTH, 0.5),
    "SemiProjectedLaplace": lambda: m.SemiProjectedLaplace(TOTAL, 0.5),
}
"""A mechanism of each class that releases tables."""
VARIANTS: dict[str, Callable[[], Any]] = {
    "canonical, pure": lambda: m.CanonicalNoise(COUNTY, epsilon=0.5, delta=0.0, neighbours="add-remove"),
    "canonical, approximate": lambda: m.CanonicalNoise(COUNTY, epsilon=0.5, delta=0.02, neighbours="add-remove"),
    "canonical, normal": lambda: m.CanonicalNoise(COUNTY, mu=0.7, neighbours="add-remove"),
    "correlated, sums": lambda: m.CorrelatedGaussian(TOTAL, epsilon=0.5, delta=1e-6, query=STACKED),
    "discrete normal, approximate": lambda: m.DiscreteGaussian(BOTH, epsilon=1.0, delta=1e-6),
    "discrete, a record more": lambda: m.DiscreteLaplace(COUNTY, 0.5, neighbours="add-remove"),
    "discrete, weights": lambda: m.DiscreteLaplace(LinearQuery(LABELS, [[1, 2, 0, 0]], ["weighted"]), 0.3),
    "extended, a margin": lambda: m.ExtendedGaussian(TOTAL, rho=0.1, query=COUNTY),
    "k-norm, a margin": lambda: m.KNorm(TOTAL, 0.5, query=COUNTY),
    "lattice, l2": lambda: m.LatticeLaplace(BOTH, 0.5, norm="l2"),
    "lattice, nothing exact": lambda: m.LatticeLaplace(LinearQuery(LABELS, [[1, 1, 2, 0]], ["weighted"]), 0.5),
    "lattice normal, approximate": lambda: m.LatticeGaussian(COUNTY, epsilon=1.0, delta=1e-6),
    "projected, approximate": lambda: m.ProjectedGaussian(BOTH, epsilon=1.0, delta=1e-6),
    "projected, weights": lambda: m.ProjectedGaussian(LinearQuery(LABELS, [[1, 1, 2, 0]], ["weighted"]), rho=0.02),
    "projected Laplace, a margin": lambda: m.ProjectedLaplace(TOTAL, 0.5, query=COUNTY),
    "semi canonical, steps": lambda: m.SemiCanonical(BOTH, tradeoff([0.5, 0.3, 0.15, 0.05], [0.05, 0.15, 0.3, 0.5])),
    "semi canonical, approximate": lambda: m.SemiCanonical(BOTH, approximate_dp(1.0, 0.1)),
    "semi normal, the paper's": lambda: m.SemiGaussian(BOTH, 0.5, convention="paper"),
    "semi k-norm, two records": lambda: m.SemiKNorm(BOTH, 0.5, adjacency=2),
    "semi norm, the paper's": lambda: m.SemiNorm(BOTH, 0.5, "linf", convention="paper"),
    "semi lattice, l2": lambda: m.SemiLatticeLaplace(BOTH, 0.5, "l2"),
}
"""More of these, for the contract of all."""
