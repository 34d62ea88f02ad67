"""A release of proportions is a release: one class, one format, one `observe`, one report, one check of what is stated."""

import itertools
import json
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats
from scipy.special import gammaln, softmax

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.mechanisms.composition import as_one
from bayesdp.papers import bounded_statistics as bounded
from bayesdp.papers.bounded_statistics import AllButOne, ProportionRelease, RescaledProportions, UniversalHistogram
from bayesdp.privacy import StatisticGuarantee
from tests.privacy.sensitivities.databases import tables_of

N, NAMES = 12, ["rents", "owns", "other", "none"]
KINDS = [RescaledProportions, AllButOne, UniversalHistogram]
CASES = [(kind, rule) for kind in KINDS for rule in ("boundary-inflated", "truncated")]


@pytest.mark.parametrize(("kind", "rule"), CASES)
def test_one_format(kind, rule, tmp_path):
    mechanism = kind(1.0, N, NAMES, rule=rule)
    release = mechanism.release([2, 4, 3, 3], rng=1)
    assert (release.about, release.dims, release.names) == ("statistics", ("category",), tuple(NAMES))
    assert (release.measurements[0].query, release.measurements[0].law) == (mechanism.query, mechanism.law)
    tables = [[2, 4, 3, 3], [12, 0, 0, 0]]
    read = [pickle.loads(pickle.dumps(release)), bdp.Release.from_dataset(release.to_dataset())]
    if rule == "truncated":
        release.to_netcdf(tmp_path / "r.nc")
        release.to_csv(tmp_path / "folder")
        shares = ProportionRelease.from_netcdf(tmp_path / "r.nc")
        assert np.array_equal(shares.shares, release.shares)
        read += [shares, bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "folder")]
    for again in read:
        assert again == release
        assert np.array_equal(mechanism.log_likelihood(again, tables), mechanism.log_likelihood(release, tables))


OBSERVED = [(RescaledProportions, [2, 6, 4], 1.0), (AllButOne, [2, 6, 4], [2.0, 0.5, 1.5])]
OBSERVED += [(UniversalHistogram, [5, 7], 1.0)]


@pytest.mark.parametrize(("kind", "counts", "prior"), OBSERVED)
def test_observed_posterior_is_the_enumerated_one(kind, counts, prior):
    """The model's log-density of each table of the categories against prior and likelihood without PyMC."""
    k = len(counts)
    mechanism = kind(2.0, N, NAMES[:k])
    release = mechanism.release(counts, rng=5)
    with pm.Model(coords=release.coords) as model:
        x = pm.DirichletMultinomial("counts", N, np.broadcast_to(prior, k), dims="category")
        bdp.observe(release, x / N)
    logp, tables = model.compile_logp(), tables_of(k, N)
    found = softmax([float(logp({"counts": table})) for table in tables])
    # Proportions with a Dirichlet prior.
    logs = np.sum(gammaln(np.broadcast_to(prior, k) + tables) - gammaln(tables + 1.0), axis=-1)
    expected = softmax(logs + mechanism.log_likelihood(release, tables))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-14)


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_observed_density_of_two_shares_by_quadrature(rule):
    """With proportions (q, 1 - q) themselves: quadrature over the sum s of two values of Laplace noise (SciPy), s r and s (1 - r)."""
    mechanism = RescaledProportions(1.0, N, NAMES[:2], rule=rule)
    tried = (mechanism.release([5, 7], rng=seed) for seed in range(20))
    release = next(own for own in tried if np.all(own.shares > 0.0))
    r, b = release.shares, mechanism.noise.scale
    with pm.Model() as model:
        bdp.observe(release, pm.Dirichlet("p", np.ones(2), default_transform=None))
    logp = model.compile_logp([model["noisy"]])
    for q in (0.05, 0.3, 0.5, 0.9):
        noise = stats.laplace(loc=[q, 1 - q], scale=b)
        inside = np.prod(noise.cdf(1.0) - noise.cdf(0.0)) if rule == "truncated" else 1.0
        edges = sorted({0.0, 1 / r.max(), *(float(x) for x in np.array([q, 1 - q]) / r if x < 1 / r.max())})

        def density(s, noise=noise):
            return float(s * np.prod(noise.pdf(s * r)))

        mass = sum(integrate.quad(density, *own, epsrel=1e-11)[0] for own in itertools.pairwise(edges))
        if rule == "boundary-inflated":  # or the larger value was clipped to 1
            top = int(np.argmax(r))
            mass += noise.sf(1.0)[top] * noise.pdf(r / r.max())[1 - top] / r.max() ** 2
        assert float(logp({"p": np.array([q, 1 - q])})) == pytest.approx(np.log(mass / inside), rel=1e-8)


def test_composition_and_multiple_synthesis():
    several = bounded.MultipleSynthesis.split(RescaledProportions, 1.0, N, NAMES[:3], parts=[0.5, 0.25, 0.25])
    releases = several.release([2, 6, 4], rng=1)
    assert bdp.compose(*releases).guarantee.parameters["epsilon"] == pytest.approx(several.true_epsilon, rel=1e-9)
    whole = as_one(list(releases))
    whole.check_stated()
    smaller = replace(whole.guarantee, parameters={**whole.guarantee.parameters, "epsilon": 0.9})
    with pytest.raises(ValueError, match=r"states epsilon = 0.9, .*but its first row is epsilon"):
        replace(whole, guarantee=smaller).check_stated()


def with_file(change):
    """A file of a release in which something else is said, read back."""

    def read(folder):
        RescaledProportions(1.0, N, NAMES[:3]).release([2, 6, 4], rng=1).to_netcdf(folder / "r.nc")
        with h5py.File(folder / "r.nc", "r+") as file:
            change(file)
        return bdp.Release.from_netcdf(folder / "r.nc")

    return read


def shifted(file):
    file["measured_0"][0] += 0.01


def another_law(file):
    [own] = json.loads(file.attrs["measurements"])
    file.attrs["measurements"] = json.dumps([{**own, "law": {**own["law"], "b": 9.0}}])


MEAN = m.TruncatedLaplace(1.0, 0.1, (0, 1), names=["a", "b"]).release([0.2, 0.4], rng=1)
TREE = UniversalHistogram(1.0, N, NAMES).release([2, 4, 3, 3], rng=1)
SHARES = AllButOne(1.0, N, NAMES[:3]).release([2, 6, 4], rng=1)
FRAME = {"category": ["a", "b"]}
QUERY, CUT = bdp.Identity(FRAME), bounded.RescaledLaplace(0.1, "truncated")


def with_answers(release, matrix):
    """The release of the same numbers as answers of another query."""
    [own] = release.measurements
    query = bdp.LinearQuery(release.frame, matrix, own.query.names if own.query.rows > 2 else ["a", "b"])
    return replace(release, measurements=(bdp.Measured(query, own.values, own.law),))


def read(release, kind, folder):
    release.to_netcdf(folder / "other.nc")
    return kind.from_netcdf(folder / "other.nc")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: with_answers(TREE, TREE.measurements[0].query.matrix.toarray()[[1, 0, 2, 3, 4, 5]]),
         "'universal-histogram' measures .*, but measured are .* by another linear map"),
        (lambda path: with_answers(MEAN, [[2, 0], [0, 2]]), "'truncated-laplace' measures .* by another linear map"),
        (lambda path: read(MEAN, ProportionRelease, path), "other.nc' holds no release of proportions; for others there is"),
        (lambda path: read(TREE, m.StatisticRelease, path), "holds no release of statistics"),
        (lambda path: bdp.Measured(QUERY, [0.0, 1.0], CUT), "greater than 0 under the law .* with the rule 'truncated'"),
        (lambda path: bdp.Measured(QUERY, [-0.5, 1.5], CUT), r"to 1, but category=a is -0\.5"),
        (lambda path: bdp.Measured(QUERY, [0.5, 0.5], CUT, bdp.Invariants(bdp.Totals(FRAME))), "keeps no totals of counts"),
        (lambda path: bdp.Release.from_published(FRAME, [bdp.Measured(QUERY, [0.5, 0.5], CUT)]), "which are no counts"),
        (lambda path: bdp.Measured(QUERY, [np.nan, 0.5], CUT, unmeasured=["category=a"]), "ties the noise of all cells together"),
        (lambda path: replace(SHARES, mechanism=None), "a mechanism for statistics is described by"),
        (with_file(shifted), r"must add up to 1 under the law 'rescaled-laplace', .* add up to 1\.0"),
        (with_file(another_law), r"'rescaled-proportions' has noise of the law rescaled-laplace, .*says .*b = 9.0"),
    ],
)  # fmt: skip
def test_what_is_refused(call, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_the_law_of_shares_bounds_what_may_be_stated(rule):
    """Oracle: log-density ratios of shares near a vertex between proportions d apart; no guarantee may state less than d / (2 b)."""
    law, d = bounded.RescaledLaplace(0.1, rule), 0.2
    near = [1.0 - 2e-9, 1e-9, 1e-9] if rule == "truncated" else [1.0, 0.0, 0.0]
    ratio = float(law.log_density(near, [1.0, 0.0, 0.0]) - law.log_density(near, [1.0 - d / 2, d / 2, 0.0]))
    assert ratio >= d / (2 * 0.1)
    frame = {"category": ["a", "b", "c"]}
    measured = [bdp.Measured(bdp.Identity(frame), [0.5, 0.3, 0.2], law)]

    def stated(epsilon):
        known = StatisticGuarantee("pure", {"epsilon": epsilon, "sensitivity": d}, "l1")
        bdp.Release.from_published(frame, measured, guarantee=known, about="statistics")

    stated(ratio)
    with pytest.raises(ValueError, match=r"epsilon = 0.9 for statistics that are 0.2 apart, .* at least epsilon = 1"):
        stated(0.9)
