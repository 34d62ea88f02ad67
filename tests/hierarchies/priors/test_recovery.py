"""Tables under the fitted priors look like a real one."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import numpy as np
import pytest

from bayesdp.frames import Frame
from bayesdp.hierarchies.priors import AreaAndCell, VaryingShares, simulate_counts
from bayesdp.hierarchies.structure import levels_of, tree_of

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[4] / "shared/data"))
MIDWEST = SHARED / "census1990_midwest_counties_race.csv"


def tree_with(leaves, cells):
    frame = Frame.of({"tract": [str(i) for i in range(leaves)], "cell": [str(i) for i in range(cells)]})
    return tree_of(frame, 0, levels_of(frame, 0, []))


def chain(prior, tree, counts, rng, keep=300, burn=150):
    hyper, kept = prior.start(tree, counts), []
    for i in range(burn + keep):
        hyper = prior.update(tree, counts, hyper, rng)
        if i >= burn:
            kept.append(hyper)
    return {name: np.array([own[name] for own in kept]) for name in prior.names}


@pytest.mark.skipif(not MIDWEST.is_file(), reason="the public file is not here")
def test_counties_by_race():
    """Under the default hyperpriors simulated counties have the sizes, and the shares, of the 437 of the Midwest in 1990."""
    with MIDWEST.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    races = ("popwhite", "popblack", "popamerindian", "popasian", "popother")
    counts, rng = np.array([[int(row[race]) for race in races] for row in rows]), np.random.default_rng(9)
    tree = tree_with(*counts.shape)
    shares = counts / counts.sum(axis=1, keepdims=True)
    for prior in (VaryingShares(), AreaAndCell()):
        found = chain(prior, tree, counts, rng, keep=40, burn=60)
        tables = np.array(
            [simulate_counts(prior, tree, {k: own[i] for k, own in found.items()}, rng) for i in range(40)], dtype=float
        )
        sizes = tables.sum(axis=2)
        simulated = tables / sizes[:, :, None]
        if isinstance(prior, VaryingShares):  # sizes of counties, by their quantiles and their spread
            drawn, real = (np.quantile(own, [0.1, 0.5, 0.9], axis=-1) for own in (sizes, counts.sum(axis=1)))
            np.testing.assert_allclose(drawn.mean(axis=1), real, rtol=0.15)
        else:  # shares of four races, by their mean and spread; American Indians live in few counties, which one shape does not say
            own = [0, 1, 3, 4]
            np.testing.assert_allclose(simulated.mean(axis=(0, 1))[own], shares.mean(axis=0)[own], rtol=0.25)
            np.testing.assert_allclose(simulated.std(axis=1).mean(axis=0)[own], shares.std(axis=0)[own], rtol=0.35)
