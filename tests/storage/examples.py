"""Releases of every kind, for the tests of storage."""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.privacy import Guarantee
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release

TABLE = xr.DataArray(
    [[15, 5], [20, 10], [3, 7]],
    dims=("county", "education"),
    coords={"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]},
)
GROUPED = {"county": ["a", "b", "c"], "state": ("county", ["IL", "IL", "IN"]), "year": [1990, 2000]}


def lattice() -> Release:
    """Lattice noise under both margins, with a mechanism and a guarantee."""
    margins = Margins(TABLE, ["county"], ["education"])
    noisy = TABLE + np.array([[1, -1], [-2, 2], [1, -1]])
    return Release.from_published(
        TABLE,
        [Measured(Identity(TABLE), noisy, LatticeLaplace(epsilon=0.25, norm="l1"))],
        [Exact(margins, margins.apply(TABLE))],
        mechanism={"mechanism": "lattice-laplace", "epsilon": 0.25, "norm": "l1"},
        guarantee=Guarantee("pure", {"epsilon": 0.25}, "l1", caveats=("made up",), simulated=True),
        simulated=True,
    )


def several() -> Release:
    """Several measurements with different laws, one of them incomplete; bounds, a matrix, group totals."""
    matrix = LinearQuery(GROUPED, [[1, 0, 0, -1, 0, 0], [0, 0, 0, 1, 1, 1]], ["gap", "rest"])
    state = Totals(GROUPED, "state")
    noisy = np.array([[4.0, -7.0], [np.nan, 0.0], [9.0, 2.0]])
    scales = np.arange(1.0, 7.0).reshape(3, 2)
    return Release.from_published(
        GROUPED,
        [
            Measured(Identity(GROUPED), noisy, DiscreteLaplace(b=scales), name="cells", unmeasured=[("b", 1990)]),
            Measured(state + Totals(GROUPED), [12, 8, 21], DiscreteGaussian(sigma=2.5)),
            Measured(state, [13, 7], DiscreteLaplace(b=3.0), name="states"),
        ],
        [Exact(state, [14, 9]), Exact(Totals(GROUPED), 23), Exact(matrix, [-4, 4], ">="), Exact(matrix, [9, 30], "<=")],
    )


def projected() -> Release:
    """Real noise under fewer invariants than are published."""
    rows, cells = Margins(TABLE, ["county"]), Identity(TABLE)
    noise = np.array([[0.1, -0.1], [1 / 3, -1 / 3], [1e-17, 0.0]])
    return Release.from_published(
        TABLE,
        [Measured(cells, TABLE + noise, ProjectedGaussian(sigma=0.7), Invariants(rows))],
        [Exact(rows, rows.apply(TABLE)), Exact(Margins(TABLE, ["education"]), TABLE.sum("county"))],
    )


def exact_only() -> Release:
    """Nothing noisy; labels of several types and with markup."""
    labels = {"code": [1, "1b", 2.5], "kind": ["<script>alert(1)</script>", 'a, "b"', "ü\n"]}
    return Release.from_published(labels, exact=[Exact(Identity(labels), np.arange(9).reshape(3, 3))])


def scalar_and_line() -> Release:
    """A noisy grand total and a table of one dimension."""
    line = {"county": [17031, 17043]}
    return Release.from_published(
        line,
        [Measured(Totals(line), -3, DiscreteGaussian(4.0)), Measured(Identity(line), [5, 6], LatticeGaussian(2.0))],
    )


EXAMPLES = {
    "lattice": lattice,
    "several": several,
    "projected": projected,
    "exact only": exact_only,
    "scalar": scalar_and_line,
}
