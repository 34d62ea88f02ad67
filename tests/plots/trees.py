"""Posteriors made by hand: draws without MCMC, so that tests of pictures and pages take no time."""

import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import bayesdp as bdp
from bayesdp.inference import diagnose
from bayesdp.report.page import page

COUNTY = ["Alpha", "Beta", "<script>alert(1)</script>", "5$ & more"]
EDUCATION = ["Low", "High", "None"]
TRUTH = np.array([[5, 7, 0], [9, 4, 0], [6, 6, 0], [3, 8, 0]])
FRAME = {"county": COUNTY, "education": EDUCATION}


def release(**options):
    """A 4 x 3 table whose education margin is exact; nobody has education None, so that this column is determined."""
    law = options.pop("law", bdp.noise.DiscreteGaussian(sigma=2.0))
    noise = np.array([[1, -2, 2], [0, 3, -2], [2, -1, 1], [-5, 0, 3]])
    # Whole numbers are no sample of a law on the real line, and from_published says so.
    noise = noise if law.integer else noise + 0.37
    measured = bdp.Measured(bdp.Identity(FRAME), TRUTH + noise, law)
    exact = bdp.Exact(bdp.Margins(FRAME, ["education"]), TRUTH.sum(axis=0))
    return bdp.Release.from_published(FRAME, [measured], [exact], **options)


def relaxation(name):
    """What files of version 0.1 say of a table of real numbers in the place of counts, and of its error by mean count and scale."""
    errors = {
        "mean_error": [[0.37, 0.09], [0.05, 0.05], [0.0, 0.01], [0.0, 0.0], [0.0, 0.0]],
        "sd_error": [[0.25, 0.28], [0.02, 0.05], [0.03, 0.0], [0.03, 0.0], [0.03, 0.0]],
    }
    text = f"{name} holds real numbers that stand for whole ones; draws are not rounded"
    case = "three cells of half, once and one and a half times the mean count"
    attrs = {"variable": name, "kind": "continuous relaxation", "text": text, "case": case}
    values = {what: (("mean_count", "b"), own) for what, own in errors.items()}
    return xr.Dataset(values, coords={"mean_count": [1, 5, 20, 100, 1000], "b": [2.0, 10.0]}, attrs=attrs)


def unpainted(*given, **options):
    """A page whose pictures are made and not painted, which takes most of its time; test_report looks at one that is painted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda *_, **__: None)
        return page(*given, **options)


def tree(own=None, *, chains=2, draws=100, prior=True):
    """A posterior as `bayesdp.sample` would return it: random tables of the fiber instead of MCMC."""
    own = release() if own is None else own
    rng = np.random.default_rng(5)
    counts = np.zeros((chains, draws, *TRUTH.shape), dtype=np.int64)
    for j, total in enumerate(TRUTH.sum(axis=0)):
        counts[..., j] = rng.multinomial(total, [0.3, 0.3, 0.2, 0.2], size=(chains, draws))
    determined = own.fiber.determined()
    lower, upper = own.fiber.bounds()
    dims = ("county", "education")
    array = xr.DataArray(counts, dims=("chain", "draw", *dims), coords=own.coords)
    rate = xr.DataArray(rng.gamma(2.0, size=(chains, draws)), dims=("chain", "draw"))
    posterior = xr.Dataset({"x": array, "rate": rate})
    limits = {"lower": (dims, lower), "upper": (dims, upper), "determined": (dims, determined)}
    fiber = xr.Dataset(limits, coords=own.coords, attrs={"variable": "x", "connectivity": "proved: by hand"})
    groups = {"posterior": posterior, "release": own.to_dataset(), "fiber": fiber}
    groups["diagnostics"] = diagnose(posterior, {"x": determined})
    if own.guarantee is not None:
        groups["guarantee"] = xr.Dataset(attrs={"guarantee": json.dumps(own.guarantee.to_dict())})
    made = xr.DataTree.from_dict(groups)
    made.attrs |= {"bayesdp_version": "1", "pymc_version": "6", "seed": "17", "command": "bayesdp fit <a> & b"}
    if prior:
        numbers = rng.poisson(6.0, (1, 300, *TRUTH.shape))
        before = xr.DataArray(numbers, dims=("chain", "draw", *dims), coords=own.coords)
        made["prior"] = xr.DataTree(xr.Dataset({"x": before}))
        made["prior_predictive"] = xr.DataTree(xr.Dataset({"noisy": before + rng.integers(-3, 4, before.shape)}))
        made.attrs["prior"] = "toy: nothing but <b>Poisson</b>\nx ~ Poisson(6)\nwith rate = 6"
    return made
