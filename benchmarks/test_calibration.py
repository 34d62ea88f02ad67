"""Simulations a second of a calibration: compiled once, against a loop that builds and compiles each model, and two workers."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytest

import bayesdp as bdp
from bayesdp.calibration import sbc
from bayesdp.calibration.runs import in_processes
from bayesdp.calibration.study import SHORT, Study

TABLE = {"row": ["a", "b"], "column": ["u", "v", "w"]}
MECHANISM = bdp.LatticeLaplace(bdp.Margins(TABLE, ["row"], ["column"]), epsilon=0.5)
COUNT = 25


def simulate(rng: np.random.Generator) -> tuple[dict[str, Any], bdp.Release]:
    rate = rng.gamma(4.0, 2.0)
    x = rng.poisson(rate, size=(2, 3))
    return {"rate": rate, "x": x}, MECHANISM.release(x, rng=rng)


def build_model(release: bdp.Release) -> pm.Model:
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 4.0, 0.5)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
    return model


def simulate_counts(rng: np.random.Generator) -> tuple[dict[str, Any], bdp.Release]:
    x = rng.negative_binomial(3.0, 3.0 / 11.0, size=(2, 3))
    return {"x": x}, MECHANISM.release(x, rng=rng)


def build_counts(release: bdp.Release) -> pm.Model:
    with pm.Model(coords=release.coords) as model:
        x = bdp.ConfidentialCounts("x", pm.NegativeBinomial.dist(mu=8.0, alpha=3.0), dims=release.dims)
        bdp.observe(release, x)
    return model


def rebuilding(study: Study, build: Any, count: int = 3) -> float:
    """Seconds a simulation of the loop that somebody writes who does not know that compiled functions can be kept."""
    start = time.perf_counter()
    for number in range(count):
        release = study.draw(number).release
        with build(release) as model:
            pm.sample(**SHORT, random_seed=number, model=model)
    return (time.perf_counter() - start) / count


@pytest.mark.parametrize(
    ("words", "draw", "build"),
    [("table and a rate (NUTS)", simulate, build_model), ("table", simulate_counts, build_counts)],
)
@pytest.mark.benchmark(group="calibration")
def test_a_core(benchmark: Any, enter: Any, words: str, draw: Any, build: Any) -> None:
    study = Study(draw, build, None, 1)
    for number in range(2):  # compiles, and finds that the model can be reused
        study(number)
    numbers = iter(range(2, 10_000))
    benchmark.pedantic(lambda: study(next(numbers)), rounds=COUNT)
    each = benchmark.stats.stats.median
    enter(f"simulations a second a core, 2 x 3 {words}, 200 + 200 draws", 1 / each, "/s", at_least=10)
    with pytensor.config.change_flags(numba__cache=False):
        enter(f"{words}: to rebuild and recompile takes", rebuilding(study, build) / each, "times as long", at_least=5)
    enter(f"{words}: to rebuild takes, with PyTensor's files of earlier runs", rebuilding(study, build) / each, "times")


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="needs two cores")
@pytest.mark.benchmark(group="calibration")
def test_two_workers(benchmark: Any, enter: Any) -> None:
    study = Study(simulate, build_model, None, 1)

    def rate(workers: int) -> float:
        """Simulations a second when workers have started and compiled: from the tenth on."""
        times = []
        for record in in_processes(workers)(study, range(10 + 4 * COUNT)):
            assert "error" not in record
            times.append(time.perf_counter())
        return (len(times) - 10) / (times[-1] - times[9])

    one = rate(1)
    two = benchmark.pedantic(lambda: rate(2), rounds=1)
    enter("two workers make so many times the simulations of one", two / one, "", at_least=1.7)


@pytest.mark.benchmark(group="calibration")
def test_all_of_it(benchmark: Any, enter: Any) -> None:
    """From nothing: compilation, 25 simulations, verdict."""
    run = lambda: sbc(simulate, build_model, n=COUNT, seed=2, progressbar=False)  # noqa: E731
    result = benchmark.pedantic(run, rounds=1)
    assert result["verdict"].attrs["failed"] == 0
    enter("25 simulations with compilation", benchmark.stats.stats.median, "s")
