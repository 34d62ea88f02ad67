"""Releases of every kind, for the tests of storage."""

import json

import numpy as np
import xarray as xr

from bayesdp import Exact, Identity, Invariants, LinearQuery, Margins, Measured, Release, Totals, noise
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.privacy import Guarantee

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
TABLE = xr.DataArray([[15, 5], [20, 10], [3, 7]], LABELS)
GROUPED = {"county": ["a", "b", "c"], "state": ("county", ["IL", "IL", "IN"]), "year": [1990, 2000]}


def lattice():
    margins = Margins(TABLE, ["county"], ["education"])
    noisy = TABLE + np.array([[1, -1], [-2, 2], [1, -1]])
    return Release.from_published(
        TABLE,
        [Measured(Identity(TABLE), noisy, noise.LatticeLaplace(epsilon=0.25, norm="l1"))],
        [Exact(margins, margins.apply(TABLE))],
        mechanism={"mechanism": "lattice-laplace", "epsilon": 0.25, "norm": "l1"},
        guarantee=Guarantee("pure", {"epsilon": 0.25}, "l1", caveats=("made up",), simulated=True),
        simulated=True,
    )


def several():
    """Several measurements with different laws, one of them incomplete; bounds, a matrix, group totals."""
    matrix = LinearQuery(GROUPED, [[1, 0, 0, -1, 0, 0], [0, 0, 0, 1, 1, 1]], ["gap", "rest"])
    state = Totals(GROUPED, "state")
    noisy = np.array([[4.0, -7.0], [np.nan, 0.0], [9.0, 2.0]])
    scales = np.arange(1.0, 7.0).reshape(3, 2)
    measured = [
        Measured(Identity(GROUPED), noisy, noise.DiscreteLaplace(b=scales), name="cells", unmeasured=[("b", 1990)]),
        Measured(state + Totals(GROUPED), [12, 8, 21], noise.DiscreteGaussian(sigma=2.5)),
        Measured(state, [13, 7], noise.DiscreteLaplace(b=3.0), name="states"),
    ]
    bounds = [Exact(matrix, [-4, 4], ">="), Exact(matrix, [9, 30], "<=")]
    return Release.from_published(GROUPED, measured, [Exact(state, [14, 9]), Exact(Totals(GROUPED), 23), *bounds])


def projected():
    rows, cells = Margins(TABLE, ["county"]), Identity(TABLE)
    added = np.array([[0.1, -0.1], [1 / 3, -1 / 3], [1e-17, 0.0]])
    measured = [Measured(cells, TABLE + added, noise.ProjectedGaussian(sigma=0.7), Invariants(rows))]
    exact = [Exact(rows, rows.apply(TABLE)), Exact(Margins(TABLE, ["education"]), TABLE.sum("county"))]
    return Release.from_published(TABLE, measured, exact)


def exact_only():
    labels = {"code": [1, "1b", 2.5], "kind": ["<script>alert(1)</script>", 'a, "b"', "ü\n"]}
    return Release.from_published(labels, exact=[Exact(Identity(labels), np.arange(9).reshape(3, 3))])


def scalar_and_line():
    line = {"county": [17031, 17043]}
    measured = [Measured(Totals(line), -3, noise.DiscreteGaussian(4.0))]
    return Release.from_published(line, [*measured, Measured(Identity(line), [5, 6], noise.LatticeGaussian(2.0))])


EXAMPLES = {"lattice": lattice, "several": several, "projected": projected, "exact only": exact_only}
EXAMPLES["scalar"] = scalar_and_line
STATISTICS = StatisticRelease([0.37, 0.9], noise.TruncatedLaplace(0.04, (0.0, 1.0)), ("share", "other"))


def write_columns(release, path):
    """One CSV file with its noise.json, without the checksum, which would have most changes of the CSV file refused."""
    release.to_csv(path)
    sidecar = path.with_suffix(".noise.json")
    described = json.loads(sidecar.read_text(encoding="utf-8"))
    del described["data"]["sha256"]
    sidecar.write_text(json.dumps(described), encoding="utf-8")
