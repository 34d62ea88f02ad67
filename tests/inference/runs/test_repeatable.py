"""With a seed the draws are the same where functions were compiled anew and where they were read from files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor
import pytest

import bayesdp as bdp
from bayesdp.inference.runs import running

TABLE = {"area": list("abcdefgh"), "sex": ["f", "m"]}


def fit(cores=2, chains=4, draws=200, tune=200):
    """Counts with rates that NUTS samples, by functions of PyTensor."""
    frame, law = bdp.Frame.of(TABLE), bdp.noise.DiscreteLaplace(b=3.0)
    rng = np.random.default_rng(0)
    x = rng.poisson(20.0, frame.shape)
    noisy = bdp.Measured(bdp.Identity(frame), law.draw(rng, frame.shape, location=x), law)
    release = bdp.Release.from_published(frame, [noisy], [bdp.Exact(bdp.Totals(frame, by="area"), x.sum(1))])
    with pm.Model(coords=release.coords):
        mean, spread = pm.Normal("mean", 3.0, 1.0), pm.HalfNormal("spread", 1.0)
        rate = pm.math.exp(mean + pm.Normal("effect", 0.0, spread, dims="area"))
        bdp.observe(
            release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rate[:, None], shape=(8, 2)), dims=release.dims)
        )
        return bdp.sample(draws, tune=tune, chains=chains, cores=cores, random_seed=7, progressbar=False, quiet=True)


def test_functions_are_compiled_for_sums_in_one_order(monkeypatch):
    """In this process and in those of the chains; the user's setting is as before."""
    seen, run = [], pm.sample

    def looked(*args, **given):
        seen.append(pytensor.config.numba__fastmath)
        return run(*args, **given)

    monkeypatch.setattr(pm, "sample", looked)
    with pytensor.config.change_flags(numba__fastmath=True):
        fit(cores=1, chains=1, draws=5, tune=5)
        running._run((), lambda: seen.append(pytensor.config.numba__fastmath), ())
        assert pytensor.config.numba__fastmath
    assert seen == [False, False]


_SCRIPT = """
import hashlib
from tests.inference.runs.test_repeatable import fit
draws = fit()["posterior"].to_dataset()
print([hashlib.sha256(draws[name].values[chain].tobytes()).hexdigest() for name in sorted(draws) for chain in range(4)])
"""


@pytest.mark.slow
def test_draws_are_the_same_the_first_time_and_later(tmp_path):
    """Of four chains of two processes at a time, the first two compile where nothing is there to be read."""
    root = Path(__file__).resolve().parents[3]
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={tmp_path / 'pytensor'}".strip(",")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba"), "PYTENSOR_FLAGS": flags}
    command = [sys.executable, "-c", _SCRIPT]
    one, again = (
        subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True, timeout=600)
        for _ in range(2)
    )
    assert one.stdout
    assert one.stdout == again.stdout
