"""With a seed the draws are the same where functions were compiled anew and where they were read from files.

They are if sums are added up in one order: `numba__fastmath` leaves the order to the compiler, which then depends on what it has read.
"""

from __future__ import annotations

import pymc as pm
import pytensor

import bayesdp as bdp
from bayesdp.inference.runs import running


def test_functions_are_compiled_for_sums_in_one_order(monkeypatch):
    """In this process and in those of the chains; the user's setting is as before."""
    seen, run = [], pm.sample

    def looked(*args, **given):
        seen.append(pytensor.config.numba__fastmath)
        return run(*args, **given)

    monkeypatch.setattr(pm, "sample", looked)
    with pytensor.config.change_flags(numba__fastmath=True):
        with pm.Model():
            pm.Normal("mean")
            bdp.sample(draws=5, tune=5, chains=1, cores=1, random_seed=7, progressbar=False, quiet=True)
        running._run((), lambda: seen.append(pytensor.config.numba__fastmath), ())
        assert pytensor.config.numba__fastmath
    assert seen == [False, False]
