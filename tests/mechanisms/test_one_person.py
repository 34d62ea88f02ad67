"""What a guarantee says about one person's record, against all tables of a few records."""

import itertools
import re

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import DiscreteGaussian, DiscreteLaplace, SemiLatticeLaplace
from bayesdp.mechanisms.base import alone, with_person
from bayesdp.papers.semi_dp import semi_project
from bayesdp.papers.subspace import project
from bayesdp.privacy import Guarantee, SamplerStatement, mean_sensitivity, pure_pairs
from tests.fibers.moves.test_basis import NESTED
from tests.lattices.oracles import labels, lattice_points
from tests.privacy.sensitivities.databases import weighted

UNPROTECTED = "changes an exact value and is not protected at all"
NUMBER = r"(\d+(?:\.\d+)?(?:e-?\d+)?)(?!\d)"
GROUPED = {"county": list("abcd"), "state": ("county", list("NNST"))}


INVARIANTS = {
    "total": bdp.Totals(labels(2, 3)),
    "one margin": bdp.Margins(labels(2, 3), ["a"]),
    "both margins": bdp.Margins(labels(2, 3), ["a"], ["b"]),
    "two-way of three": bdp.Margins(labels(2, 3, 2), ["a", "b"], ["b", "c"], ["a", "c"]),
    "states, two of them of one county": bdp.Totals(GROUPED, "state"),
    "nested": bdp.Totals(NESTED, by=["state", "sex"]) + bdp.Margins(NESTED, ["county"]),
    "one label": bdp.Margins(labels(1, 3), ["a"]),
    "a row that leaves cells out": weighted([[1, 1, 0, 0, 2]]),
    "a row that leaves one cell out": weighted([[1, 2, 3, 0]]),
    "different weights": weighted([[1, 2, 3]]),
    "some alike": weighted([[1, 1, 1, 1, 1], [0, 1, 2, 2, 3]]),
}


def by_enumeration(invariants):
    """Cells from which one record can move elsewhere, and in which one can come, with all exact values kept: by tables."""
    cells, query = invariants.frame.size, invariants.query
    *seen, empty = (query.apply(x.reshape(invariants.frame.shape)) for x in np.eye(cells + 1, cells, dtype=np.int64))
    pairs = {(i, j) for i, j in itertools.permutations(range(cells), 2) if np.array_equal(seen[i], seen[j])}
    come = {i for i in range(cells) if np.array_equal(seen[i], empty)}
    return {i for i, _ in pairs}, come, len(pairs) == cells * (cells - 1) > 0


@pytest.mark.parametrize("name", INVARIANTS)
def test_in_which_cells_one_record_can_change_and_that_every_sentence_is_true(name):
    """The sentences of lattice noise: who can change alone, at what loss by the law, how many must change together."""
    invariants = Invariants(INVARIANTS[name])
    (move, come, alike), cells = by_enumeration(invariants), invariants.frame.size
    assert alone(invariants) == (cells, len(move), len(come), alike)
    text = bdp.LatticeLaplace(invariants, epsilon=0.3).guarantee.person
    costs = [float(value) for value in re.findall(rf"costs at most epsilon = {NUMBER}", text)]
    # Mass exp(-0.3 |z|_1): a record that moves is 2 apart, one that comes is 1 apart.
    assert costs == pytest.approx([0.6] * bool(move) + [0.3] * bool(come))
    if not move and not come:
        assert text.startswith(f"Changing, adding or removing one person's record alone {UNPROTECTED}. Protected are")
        if least := re.search(r"only changes of (\d+) or more records together", text):
            points = lattice_points(invariants.matrix.toarray(), 1 if invariants.dimension > 5 else 2)
            lengths = np.abs(points).sum(axis=1)
            shortest = points[np.argmin(np.where(lengths > 0, lengths, np.inf))]
            assert shortest.sum() == 0  # as many records leave a cell as come to one
            assert int(least[1]) == np.abs(shortest).sum() // 2
        else:
            assert "only changes of several records together" in text
        return
    assert ("from one cell to any other costs" in text) == alike
    same = "between two cells that count towards the same exact values costs" in text
    assert same == (len(move) == cells and not alike)
    for which, words in (
        (move, r"In (\d+) of (\d+) cells one person's record can move"),
        (come, r"Adding or removing one in (\d+) of (\d+) cells, which no exact value counts, costs"),
    ):
        assert re.findall(words, text) == [(str(len(which)), str(cells))] * (0 < len(which) < cells)
    # What is not protected is said of moves unless all are possible, and of additions unless all are.
    assert text.count(UNPROTECTED) == (not alike) + (len(come) < cells)


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("name", ["total", "one margin", "states, two of them of one county", "both margins"])
def test_the_loss_of_subspace_noise_is_that_of_the_worst_record(name, neighbours):
    """The loss of one record that moves, by dense algebra on all pairs of cells that the invariants treat alike."""
    query = INVARIANTS[name]
    a = Invariants(query).matrix.toarray()
    kept = [(i, j) for i, j in itertools.combinations(range(a.shape[1]), 2) if np.array_equal(a[:, i], a[:, j])]
    z = np.array([np.eye(a.shape[1])[i] - np.eye(a.shape[1])[j] for i, j in kept])
    for mechanism, length in (
        (bdp.ProjectedGaussian(query, mu=0.5, neighbours=neighbours), lambda m, _: np.linalg.norm(z, axis=1) / m.sigma),
        (bdp.ExtendedLaplace(query, epsilon=1.0, neighbours=neighbours), lambda m, own: np.abs(own).sum(axis=1) / m.b),
        (bdp.KNorm(query, epsilon=0.7, neighbours=neighbours), lambda m, own: 0.7 * m.law.hull.gauge(own)),
    ):
        worst = []
        if kept:
            own = mechanism.answer_invariants.coordinates(z.reshape(-1, *mechanism.frame.shape))
            worst = [length(mechanism, own).max()]
        stated = re.findall(rf"costs at most (?:epsilon|mu) = {NUMBER}", mechanism.guarantee.person)
        assert [float(value) for value in stated] == pytest.approx(worst, rel=1e-5)


def test_what_is_protected_comes_first():
    # Add-remove neighbours are told apart by the total; what is protected loses more.
    mechanism = bdp.ExtendedLaplace(bdp.Totals(labels(2, 2)), epsilon=1.0, neighbours="add-remove")
    flat = " ".join(str(mechanism.guarantee).split())
    first, *_, last = (float(value) for value in re.findall(rf"epsilon = {NUMBER}", flat))
    assert first > 1.2 > last == 1.0
    words = ["Moving one person's record", "one record moved between", "neighbouring tables"]
    assert sorted(words, key=flat.index) == words


FREE, SQUARE, LINE = labels(3), bdp.Margins(labels(3, 3), ["a"], ["b"]), bdp.Totals(labels(4))
ANY = "Moving one person's record from one cell to any other costs at most epsilon = "


def handed_in(query, loss, neighbours="substitution"):
    return project(lambda x, rng: x, bdp.Identity(labels(2, 3)), query, loss=loss, neighbours=neighbours)


BY_CHANGE, BY_ADDING = (
    bdp.BoundaryInflatedLaplace(0.5, mean_sensitivity(50, (0.0, 10.0), own), (0.0, 10.0)) for own in ("substitution", "add-remove")
)  # fmt: skip
LAPLACE = semi_project(
    lambda rng, size: rng.laplace(0.0, 2.0, (size, 4)), bdp.Identity(labels(4)), LINE, loss={"epsilon": 1.0}, adjacency=1
)  # fmt: skip


@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        # Without invariants the relation of neighbours decides.
        (DiscreteLaplace(FREE, 0.5), ANY + "0.5. Nothing is stated about adding or removing one: the number of records"),
        (DiscreteLaplace(FREE, 0.5, neighbours="add-remove"), ANY + "1. Adding or removing one costs at most epsilon = 0.5."),
        # Two steps of rho = 0.1.
        (DiscreteGaussian(FREE, rho=0.1, neighbours="add-remove"), "any other costs at most rho = 0.4."),
        (bdp.ProjectedGaussian(Invariants(None, FREE), mu=0.5, neighbours="add-remove"), "removing one costs at most mu = 0.5."),
        (bdp.ProjectedGaussian(Invariants(None, FREE), mu=0.5, neighbours="add-remove"), f"other costs at most mu = {0.5**0.5:.6g}."),
        # How many records change together; two records are 4 apart in l1, one is 2.
        (bdp.SemiGaussian(SQUARE, 1.0), "changes of 2 to 3 records together"),
        (bdp.SemiGaussian(SQUARE, 1.0, adjacency=2), "changes of 2 records together"),
        (SemiLatticeLaplace(LINE, 1.0, adjacency=2), ANY + "0.5."),
        (LAPLACE, "any other costs at most epsilon = 1."),
        # Functions that were handed in.
        (handed_in(INVARIANTS["total"], {"epsilon": 1.0, "delta": 0.4}, "add-remove"), "any other has no protection by this bound"),
        (handed_in(INVARIANTS["both margins"], {"mu": 1.0}), "Changing, adding or removing"),
        # Statistics.
        (BY_CHANGE, "Changing one person's record costs at most epsilon = 0.5. Nothing is stated"),
        (BY_ADDING, "Adding or removing one person's record costs at most epsilon = 0.5."),
    ],
    ids=lambda own: own if isinstance(own, str) else type(own).__name__,
)  # fmt: skip
def test_sentences(mechanism, words):
    assert words in " ".join(str(mechanism.guarantee).split())


def test_sentences_of_several_releases(make_rng):
    by_a, by_b = (bdp.Margins(labels(2, 3), [name]) for name in "ab")
    kinds = [bdp.ProjectedGaussian(query, mu=mu) for query, mu in ((by_a, 0.3), (by_b, 0.4), (by_a, 0.4))]
    one, other, again = (own.release(np.arange(6).reshape(2, 3), make_rng(1)) for own in kinds)
    assert one.guarantee.person.startswith("Moving one person's record between two cells that count towards the same")
    assert bdp.compose(one, other).guarantee.person.startswith("Changing, adding or removing one person's record alone")
    assert "costs at most mu = 0.5;" in bdp.compose(one, again).guarantee.person


def test_a_loss_is_never_bare_and_files_of_older_versions_have_no_such_sentence():
    pairs = pure_pairs(0.25, "l1", ["substitution"])
    stated = Guarantee("pure", {"epsilon": 0.25}, "l1", pairs, sampler=SamplerStatement("Gibbs", 9))
    person = with_person(stated, Invariants(INVARIANTS["total"])).person
    assert "costs at most target epsilon = 0.5 (approximate, 9 sweeps of Gibbs, convergence not certified)" in person
    guarantee = bdp.LatticeLaplace(INVARIANTS["total"], epsilon=0.25).guarantee
    old = {key: value for key, value in guarantee.to_dict().items() if key not in ("person", "about")}
    read = Guarantee.from_dict(old)
    assert read.person == ""
    # What only words said is said by values now.
    assert {key: value for key, value in read.to_dict().items() if key != "about"} == old
    with pytest.raises(TypeError, match="person must be a sentence"):
        Guarantee.from_dict({**old, "person": 3})
