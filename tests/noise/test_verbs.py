"""What laws say of themselves to the rest of the package: defaults, losses at a length, pictures, ends, samplers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesdp import Invariants, Margins, Measured, SemiNorm, compose, noise
from bayesdp.composition._total import Part
from bayesdp.measurements import Exact
from bayesdp.noise import NoiseLaw
from bayesdp.noise.base import _REGISTRY
from bayesdp.plots.noise import draw_noise_law, noise_scale
from bayesdp.privacy import gaussian_dp
from bayesdp.queries import Identity
from bayesdp.release import Release
from bayesdp.significance import odds_ratio_test_from_release

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
COUNTY = Margins(LABELS, ["county"])
BOTH = COUNTY + Margins(LABELS, ["education"])
TABLE = np.array([[5, 3], [2, 7], [4, 4]])
FAMILIES = {"independent", "bounded", "perturbed", "lattice", "subspace", "polytope", "semi"}

DIFFERENCES_OF_TABLES = (
    np.array([[1, -1], [-1, 1], [0, 0]]),
    np.array([[1, -1], [1, -1], [-2, 2]]),
    np.array([[3, -3], [-1, 1], [-2, 2]]),
)
"""They change neither margin."""

PURE = [
    noise.Laplace(1.5),
    noise.DiscreteLaplace(2.0),
    noise.LatticeLaplace(0.4, "l1"),
    noise.LatticeLaplace(0.4, "l2"),
    noise.SubspaceNorm(0.7, "l1"),
    noise.SubspaceNorm(0.7, "l2"),
    noise.ExtendedLaplace(1.5),
]


@pytest.mark.parametrize("name", sorted(_REGISTRY))
def test_every_law_has_a_family_that_fits_where_it_lives(name: str) -> None:
    law = _REGISTRY[name]
    assert law.family in FAMILIES
    # What is known within thresholds only is bounded by its codes, and perturbed.
    assert (law.family == "bounded") == (law.support in ("bounded", "simplex") and law.name != "censored")
    assert (law.family == "independent") == (law.support in ("integers", "reals"))
    assert (law.family == "perturbed") == (law.support == "counts" or law.name == "censored")


@pytest.mark.parametrize("law", PURE, ids=str)
def test_the_loss_at_a_length_is_the_largest_log_ratio(law: NoiseLaw) -> None:
    """Far out in the direction of a difference d: ``log f(t d) - log f(t d - d)``, which no other point exceeds."""
    own = Invariants(BOTH)
    known = law.pair_loss(Identity(LABELS), own)
    assert known is not None
    assert (known.kinds, known.tight) == (("pure",), True)
    kept = None if law.independent else own
    rng = np.random.default_rng(1)
    for change in DIFFERENCES_OF_TABLES:
        image = change.reshape(1, -1) if known.coordinates is None else known.coordinates(change[None].astype(float))
        length = float(np.linalg.norm(image.reshape(-1), ord=1 if known.norm == "l1" else 2))
        loss = known.loss(length, None)["epsilon"]
        far = 50 * change
        assert law.logp(far, change, kept) - law.logp(far, np.zeros_like(change), kept) == pytest.approx(loss)
        for _ in range(20):
            moves = rng.integers(-6, 7, len(DIFFERENCES_OF_TABLES))
            at = np.tensordot(moves, np.array(DIFFERENCES_OF_TABLES), axes=1)
            assert law.logp(at, change, kept) - law.logp(at, np.zeros_like(change), kept) <= loss + 1e-9


def test_losses_are_unknown_where_they_are() -> None:
    own, cells = Invariants(BOTH), Identity(LABELS)
    for law in (noise.SubspaceNorm(0.7, "linf"), noise.Tulap(1.0), noise.SemiKNorm(1.0, 2), noise.Laplace([1.0, 2.0])):
        assert law.pair_loss(cells, own) is None


def test_subspace_norm_noise_is_composed_by_its_law() -> None:
    """Two releases with one margin each: at a difference that keeps both, the l1 (or l2) length times the two rates."""
    for norm, length in (("l1", 4.0), ("l2", 2.0)):
        one = SemiNorm(COUNTY, 1.0, norm)
        other = SemiNorm(Margins(LABELS, ["education"]), 0.6, norm)
        releases = [own.release(TABLE, np.random.default_rng(2)) for own in (one, other)]
        both = compose(*releases)
        square = next(own for own in both.differences if own.l1 == 4.0)
        for release, mechanism in zip(releases, (one, other), strict=True):
            found = Part(release, both.invariants).by_law[square]
            assert found.exact
            assert found.loss.parameters == {"epsilon": pytest.approx(mechanism.rate * length)}
        assert both.guarantee is not None
        row = next(own for own in both.guarantee.pairs if own.size == square.size(norm))
        assert row.loss["epsilon"] == pytest.approx((one.rate + other.rate) * length)
    largest = [SemiNorm(own, 1.0, "linf").release(TABLE, np.random.default_rng(2)) for own in (COUNTY, BOTH)]
    assert Part(largest[0], Invariants(BOTH)).by_law == {}
    assert compose(*largest).guarantee is not None or compose(*largest).loss_unknown


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        (noise.Laplace(2.0), stats.laplace(scale=2.0).pdf),
        (noise.Gaussian(2.0), stats.norm(scale=2.0).pdf),
        (noise.Tulap(0.8, 0.01), noise.Tulap(0.8, 0.01).standard.pdf),
        (noise.Canonical(gaussian_dp(0.5)), stats.norm(scale=2.0).pdf),
        (noise.ProjectedGaussian(2.0), stats.norm(scale=1.3).pdf),
        (noise.DiscreteLaplace(2.0), stats.dlaplace(0.5).pmf),
    ],
    ids=lambda own: str(own) if isinstance(own, NoiseLaw) else "",
)
def test_pictures_of_one_answer(law: NoiseLaw, exact: object) -> None:
    at = np.array([-3.0, 0.0, 1.0, 2.0])
    found = law.picture(at, 1.3)
    assert found is not None
    np.testing.assert_allclose(found, exact(at), rtol=1e-8)  # type: ignore[operator]  # functions of SciPy


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_subspace_norm_noise_has_a_picture_and_a_test(norm: str) -> None:
    pair = {"a": ["x", "y"], "b": ["u", "v"]}
    margins = Margins(pair, ["a"], ["b"])
    law, table = noise.SubspaceNorm(0.6, norm), np.array([[5, 4], [3, 6]])
    values = law.draw(3, (2, 2), invariants=Invariants(margins), location=table)
    release = Release.from_published(
        pair, [Measured(Identity(pair), values, law)], [Exact(margins, margins.apply(table))]
    )
    own = release.measurements[0]
    axes = draw_noise_law(own, noise_scale(own)).axes[0]
    assert axes.get_ylabel() == "density (per count, simulated)"
    assert 0.0 < odds_ratio_test_from_release(release).pvalue < 1.0


def test_the_law_of_one_answer() -> None:
    law = noise.Laplace([1.0, 2.5])
    assert law.of_answer(3, (2, 2)) == noise.Laplace(2.5)
    assert noise.Laplace(2.0).of_answer(3, (2, 2)) == noise.Laplace(2.0)
    assert noise.LatticeLaplace(0.3).of_answer(1, (3, 2)) == noise.LatticeLaplace(0.3)


def test_ends_and_parameters_of_laws_within_bounds() -> None:
    law = noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9))
    assert law.limits == (0.0, 9.0)
    assert law.model_parameters() == {"sigma": 2.5, "lower": 0.0, "upper": 9.0}
    assert noise.Laplace(2.0).limits == (-np.inf, np.inf)
    assert law.picture(np.zeros(1), 1.0) is None  # the noise depends on the confidential value


def test_every_lattice_law_says_how_it_is_drawn() -> None:
    """`add_prior_predictive` asks."""
    own = Invariants(BOTH)
    for law in (noise.LatticeLaplace(0.4), noise.LatticeGaussian(2.0)):
        found = law.sampler(own)
        assert found is not None
        assert found.exact
