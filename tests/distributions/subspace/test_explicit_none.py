"""A parameter that is None is no parameter that is left out: the law refuses it and names it."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import distributions as d

INVARIANTS = bdp.Invariants(bdp.Totals({"county": ["Alpha", "Beta", "Gamma"]}))


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (d.SubspaceNorm, {"norm": None}, "norm must be one of"),
        (d.SemiKNorm, {"adjacency": None}, "adjacency must be a positive integer"),
        (d.KNorm, {"vertices": None}, "vertices must hold"),
        (d.CorrelatedGaussian, {"covariance": None}, "covariance must hold"),
    ],
)
def test_none_is_refused_by_name(kind, given, named):
    with pytest.raises((TypeError, ValueError), match=named):
        kind.dist(np.zeros(3), 1.0, invariants=INVARIANTS, **given)
