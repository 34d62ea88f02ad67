"""What the pages say of log-likelihoods and samplers, held against the mechanisms themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import distributions
from bayesdp import mechanisms as m
from bayesdp.noise import ProjectedLaplace
from bayesdp.noise.base import law_names, registered_law
from bayesdp.papers import integer_subspace, models
from bayesdp.privacy import EXACT_SAMPLER

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = " ".join(
    " ".join((DOCS / own).read_text(encoding="utf-8").split())
    for own in ("reference/overview.md", "explanations/what-is-proved.md")
)


def both(rows: int, columns: int) -> Any:
    table = {"row": range(rows), "column": range(columns)}
    return bdp.Margins(table, ["row"], ["column"])


TOTAL = bdp.Totals({"cell": range(5)})
SMALL = {"total": TOTAL, "2x2": both(2, 2), "2x3": both(2, 3), "3x3": both(3, 3)}

SUBSPACE: dict[str, Callable[[Any], Any]] = {
    "LatticeLaplace": lambda exact: m.LatticeLaplace(exact, 0.5),
    "LatticeGaussian": lambda exact: m.LatticeGaussian(exact, rho=0.1),
    "ProjectedGaussian": lambda exact: m.ProjectedGaussian(exact, rho=0.1),
    "ExtendedGaussian": lambda exact: m.ExtendedGaussian(exact, rho=0.1),
    "CorrelatedGaussian": lambda exact: m.CorrelatedGaussian(exact, epsilon=1.0, delta=1e-6),
    "ProjectedLaplace": lambda exact: m.ProjectedLaplace(exact, 1.0),
    "ExtendedLaplace": lambda exact: m.ExtendedLaplace(exact, 1.0),
    "KNorm": lambda exact: m.KNorm(exact, 1.0),
}
SEMI: dict[str, Callable[[Any], Any]] = {
    "SemiGaussian": lambda exact: m.SemiGaussian(exact, mu=1.0),
    "SemiKNorm": lambda exact: m.SemiKNorm(exact, 1.0),
    **{f"SemiNorm {own}": lambda exact, own=own: m.SemiNorm(exact, 1.0, own) for own in ("l1", "l2", "linf")},
    **{
        f"SemiLatticeLaplace {own}": lambda exact, own=own: m.SemiLatticeLaplace(exact, 1.0, own)
        for own in ("l1", "l2")
    },
}


def log_likelihood(mechanism: Any) -> str:
    """``exact``, ``up to a constant`` or ``refused``, at a table with ones."""
    table = np.ones(mechanism.frame.shape, dtype=np.int64)
    try:
        found = mechanism.logp(mechanism.released_query.apply(table), table)
    except NotImplementedError:
        return "refused"
    assert np.isfinite(found)
    known = getattr(mechanism.law, "log_normaliser", 0.0)
    return "up to a constant" if (known(mechanism.answer_invariants) if callable(known) else known) is None else "exact"


def test_the_sentences_are_there() -> None:
    for sentence in (
        "Each has release, noise, log-likelihood, posterior, guarantee. The log-likelihood is exact; for lattice and `KNorm` noise on "
        "larger tables up to a constant that depends on no count. `ProjectedLaplace` has one where no cell is in two exact sums: with "
        "both margins `logp` refuses, and the posterior has what projection removed as a latent variable.",
        "Real noise is drawn exactly, with one exception: K-norm noise (`KNorm`, `SemiKNorm`) where the polytope has too large a "
        "boundary to be triangulated (from some ten dimensions on) and rejection is not to be had. It is drawn by hit-and-run there, "
        "whose convergence nothing here certifies (`certify` is for `LatticeLaplace` and `LatticeGaussian`).",
        "elsewhere by Gibbs sampling whose convergence is not certified.",
        "Wherever noise is not drawn exactly, the guarantee says so in place of a bare epsilon.",
        "`SemiGaussian`, `SemiKNorm`, `SemiNorm` and integer versions of the last two: noise for the differences that tables with the "
        "same invariants can have, drawn exactly up to 10 × 10 tables with both margins",
        "each is also a PyMC distribution (projected Laplace noise beyond the smallest tables as two, one of them latent: "
        "`RowSpaceNoise`)",
    ):
        assert sentence in PAGES
    for name in SUBSPACE:
        assert f"`{name}`" in PAGES


@pytest.mark.parametrize("name", SUBSPACE)
def test_log_likelihoods_of_small_tables(name: str) -> None:
    found = {own: log_likelihood(SUBSPACE[name](exact)) for own, exact in SMALL.items()}
    expected = dict.fromkeys(SMALL, "exact")
    if name == "ProjectedLaplace":
        expected |= {"2x2": "refused", "2x3": "refused", "3x3": "refused"}
    assert found == expected


@pytest.mark.parametrize("name", [own for own in SUBSPACE if own not in ("KNorm", "CorrelatedGaussian")])
def test_log_likelihoods_of_larger_tables(name: str) -> None:
    """KNorm needs half a minute for 10 x 10 tables; a case of its own is below."""
    kind = "up to a constant" if name.startswith("Lattice") else "refused" if name == "ProjectedLaplace" else "exact"
    mechanism = SUBSPACE[name](both(10, 10))
    assert log_likelihood(mechanism) == kind
    if kind == "up to a constant":  # it cancels between two tables, as nothing but the norm of the noise differs
        zero, one = np.full((10, 10), 5), np.full((10, 10), 5)
        one[:2, :2] += np.array([[1, -1], [-1, 1]])
        lost = mechanism.logp(zero, zero) - mechanism.logp(zero, one)
        size = 0.5 * 4 if name == "LatticeLaplace" else 4 / (2 * mechanism.sigma**2)
        assert lost == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("name", [own for own in SUBSPACE if own != "KNorm"])
def test_samplers_are_exact(name: str) -> None:
    exact = both(4, 4) if name == "CorrelatedGaussian" else both(10, 10)
    assert SUBSPACE[name](exact).guarantee.sampler == EXACT_SAMPLER


@pytest.mark.parametrize("name", SEMI)
def test_samplers_of_semi_dp_are_exact_up_to_10_x_10(name: str) -> None:
    for size in (3, 6, 10):
        assert SEMI[name](both(size, size)).guarantee.sampler == EXACT_SAMPLER


def test_projected_laplace_noise_has_a_latent_form() -> None:
    assert "projected-laplace" in law_names()
    mechanism = m.ProjectedLaplace(both(2, 3), 1.0)
    with pytest.raises(NotImplementedError, match="RowSpaceNoise and ProjectedLaplaceGivenRows"):
        mechanism.logp(np.zeros((2, 3)), np.zeros((2, 3)))
    assert {"RowSpaceNoise", "ProjectedLaplaceGivenRows"} <= set(distributions.__all__)
    for text in (m.ProjectedLaplace.__doc__, ProjectedLaplace.__doc__):
        assert "latent variable" in " ".join(str(text).split())


def test_every_noise_law_of_the_table_is_a_pymc_distribution() -> None:
    """Each registered law has a distribution, that `observe` finds by the law and a user by its name."""
    found = [distributions.distribution_of(registered_law(name)).__name__ for name in law_names().split(", ")]
    assert len(set(found)) == len(found) >= 22
    assert set(found) <= {*distributions.__all__, *models.__all__} | set(dir(distributions))


def test_k_norm_noise_by_hit_and_run_is_said_and_not_certified() -> None:
    """Running totals of fourteen cells: too many dimensions to triangulate, and no l1 noise to reject from."""
    cells = {"cell": range(14)}
    query = bdp.LinearQuery(cells, np.tril(np.ones((14, 14), dtype=np.int64)), [f"up to {i}" for i in range(14)])
    mechanism = m.KNorm(bdp.Totals(cells), 1.0, query=query)
    assert mechanism.answer_invariants.dimension == 13
    stated = mechanism.guarantee
    assert not stated.certified
    text = " ".join(str(stated).split())
    assert "epsilon = 1 (approximate, 50 sweeps of hit-and-run, convergence not certified)" in text.replace(
        "hit- and", "hit-and"
    )
    assert text.count("epsilon = 1") == text.count("epsilon = 1 (approximate")
    assert mechanism.law.log_normaliser is None
    assert log_likelihood(mechanism) == "up to a constant"
    assert mechanism.release(np.arange(14), rng=np.random.default_rng(1)).guarantee.sampler == stated.sampler
    with pytest.raises(
        TypeError, match=r"LatticeLaplace or LatticeGaussian, .* hit-and-run .* certified by nothing here"
    ):
        integer_subspace.certify(mechanism, 0.1)  # type: ignore[arg-type]
