"""Before the first draw: building a release of census size, observing it, and reading one county out of measurement files."""

from __future__ import annotations

import time

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from benchmarks.census_like import census_like


def test_release_and_observe(benchmark, enter):
    """100 tracts x 252 cells under a county, eight noisy queries at each of the two levels, one exact total."""
    census_like(2)  # imports
    made = census_like(100).release
    parts = [(own.query, own.values, own.law) for own in made.measurements]

    def build() -> float:
        start = time.process_time()
        release = bdp.Release.from_published(
            made.frame,
            [bdp.Measured(*own) for own in parts],
            [bdp.Exact(own.query, own.values) for own in made.exact],
        )
        with pm.Model(coords=release.coords):
            x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=2.0, alpha=0.1), dims=release.dims)
            bdp.observe(release, x)
        return time.process_time() - start

    spent = benchmark.pedantic(build)
    assert len(parts) == 16
    assert made.frame.size == 25_200
    enter("release and observe, 100 tracts x 252, 16 queries", spent, "CPU seconds", at_most=3.0)


def test_reading_one_county(benchmark, tmp_path, enter):
    """One of 20 counties of housing units of 100 blocks each, at all levels of the spine."""
    blocks = synthetic_spine("50", counties=20, tracts=2, groups=2, blocks=25)
    rng = np.random.default_rng(1)
    truth = {own: rng.poisson((3.0, 30.0)) for own in blocks}
    write_synthetic_nmf(tmp_path, truth, "pl94-unit", variance=9.0, rng=2)
    read_nmf(tmp_path, "50001", product="pl94-unit")  # imports
    start = time.process_time()
    found = benchmark.pedantic(read_nmf, args=(tmp_path, "50002"), kwargs={"product": "pl94-unit"})
    spent = time.process_time() - start
    assert len(found.codes.geounits["Block"]) == 100
    enter("reading one county of 100 blocks, of 2,000", spent, "CPU seconds")
