"""The laws of whole tables as PyMC distributions, against `bayesdp.noise`, which tests/noise compares with enumeration and SciPy."""

import math

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.stats import chi2

from bayesdp import distributions as d
from bayesdp import noise
from bayesdp.distributions.tables import GaugeOp, table_gauge
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SymmetricHull
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.polytopes.examples import Programs, both_margins, moves, substitutions
from tests.noise.oracles import all_margins, frame_of
from tests.refusals import refused

PAIR, SUM, OPEN = all_margins(2, 2), all_margins(2, 3), all_margins(3, 3)
TOTAL, ROWS = Invariants(Totals(frame_of(2, 3))), Invariants(Margins(frame_of(3, 4), ["d0"]))
WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"]))
CROSSED = Invariants(LinearQuery(frame_of(4), [[1, 1, 1, 0], [0, 1, 1, 1]], ["left", "right"]))
"""The l1 law has no known normaliser here."""
BLOCKS = Invariants(LinearQuery(frame_of(6), [[0, 1, 0, 1, 1, 0], [2, 0, 0, 0, 0, -1]], ["a", "b"]))
FREE = Invariants(None, frame_of(3))

ZERO = np.zeros((3, 3))
HULL, VERTICES = moves(3, 3)


def covariance_of(own):
    root = np.random.default_rng(8).normal(size=(own.dimension,) * 2)
    return root @ root.T + 0.3 * np.eye(len(root))


def vertices_of(own):
    return (moves(*own.frame.shape) if len(own.frame.shape) == 2 else substitutions(own.frame.size))[1]


KINDS = {
    "lattice l1": ("LatticeLaplace", lambda own: {}),
    "lattice l2": ("LatticeLaplace", lambda own: {"norm": "l2"}),
    "lattice gaussian": ("LatticeGaussian", lambda own: {}),
    "projected": ("ProjectedGaussian", lambda own: {}),
    "projected laplace": ("ProjectedLaplace", lambda own: {}),
    "extended": ("ExtendedLaplace", lambda own: {}),
    "correlated": ("CorrelatedGaussian", lambda own: {"covariance": covariance_of(own)}),
    "k-norm": ("KNorm", lambda own: {"vertices": vertices_of(own)}),
    **{f"norm {n}": ("SubspaceNorm", lambda own, n=n: {"norm": n}) for n in ("l1", "l2", "linf")},
    **{f"semi k-norm {n}": ("SemiKNorm", lambda own, n=n: {"adjacency": n}) for n in (2, 3)},
}
"""The law, and its parameters beside the scale."""


def make(name, mu, scale, own):
    kind, more = KINDS[name]
    return getattr(d, kind).dist(mu, scale, invariants=own, **more(own))


def law(name, scale, own):
    kind, more = KINDS[name]
    if kind == "CorrelatedGaussian":
        return noise.CorrelatedGaussian(scale**2 * covariance_of(own), own.coordinate_rule)
    rule = {"coordinates": own.coordinate_rule} if kind in ("ExtendedLaplace", "KNorm") else {}
    return getattr(noise, kind)(scale, **more(own), **rule)


CASES = [
    (name, own)
    for name, spaces in {
        "lattice l1": (SUM, TOTAL),
        "lattice l2": (PAIR,),
        "lattice gaussian": (PAIR, TOTAL),
        "projected": (OPEN,),
        "projected laplace": (ROWS, Invariants(Totals(frame_of(5))), BLOCKS, FREE),
        "extended": (OPEN, TOTAL, WEIGHTED),
        "correlated": (OPEN, TOTAL, WEIGHTED),
        "k-norm": (both_margins(3, 3), both_margins(4, 5), substitutions(4)[0]),  # facets, programs, a line of them
        "norm l1": (TOTAL, CROSSED),
        "norm l2": (TOTAL,),
        "norm linf": (TOTAL, CROSSED),
        "semi k-norm 3": (both_margins(3, 3), both_margins(4, 5)),
        "semi k-norm 2": (both_margins(2, 4), substitutions(4)[0]),  # these have the l1 norm
    }.items()
    for own in spaces
]


def two_tables(name, own):
    """A table, and another with the same invariants."""
    shape = own.frame.shape
    table = np.arange(own.frame.size).reshape(shape)
    if name.startswith("lattice"):
        return table, table + np.pad([[2, -2], [-2, 2]], [(0, shape[0] - 2), (0, shape[1] - 2)])
    return table, table + own.project(np.random.default_rng(2).normal(size=shape) * 2)


@pytest.mark.parametrize(("name", "own"), CASES, ids=repr)
def test_log_density_and_gradients(name, own):
    """Against the law, its differences in the scale, and differences in the location; at the centre slopes are zero, not NaN."""
    table, other = two_tables(name, own)
    scale, mu = pt.scalar("scale"), pt.tensor("mu", dtype="float64", shape=table.shape)
    logp = pm.logp(make(name, mu, scale, own), other)
    evaluate = pytensor.function([mu, scale], [logp, *pt.grad(logp, [mu, scale])])
    for value in (0.3, 1.99999, 2.0, 40.0):
        found, _, by_scale = evaluate(table, value)
        assert found == pytest.approx(law(name, value, own).logp(other, table, own), rel=1e-9, abs=1e-12)
        step = 1e-6 * value
        ends = [law(name, value + h, own).logp(other, table, own) for h in (step, -step)]
        assert by_scale == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-6)
    # Off the subspace, where no two cells are equally far off: norms have derivatives there.
    tilted = table + 0.1 * np.random.default_rng(3).normal(size=table.shape)
    by_mu, steps = evaluate(tilted, 0.7)[1], 1e-6 * np.eye(table.size)[:5].reshape(-1, *table.shape)
    slopes = [(evaluate(tilted + own, 0.7)[0] - evaluate(tilted - own, 0.7)[0]) / 2e-6 for own in steps]
    assert by_mu.reshape(-1)[:5] == pytest.approx(np.array(slopes), rel=1e-4, abs=1e-5)
    np.testing.assert_allclose(evaluate(other, 0.7)[1], np.zeros(table.shape), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "own"), [("lattice l1", OPEN), *((name, own) for name, own in CASES if own in (OPEN, TOTAL))], ids=repr
)
def test_constants_batches_and_tables_off_the_subspace(name, own):
    """The exact part of a model decides membership: off it the density is that of the projection, or at least a number."""
    table, other = two_tables(name, own)
    expected = law(name, 0.7, own).logp(other, table, own)
    assert pm.logp(make(name, table, 0.7, own), other).eval() == pytest.approx(expected, rel=1e-11)
    beside = table + 1  # other totals
    found = pm.logp(make(name, np.stack([table, beside]), 0.7, own), other).eval()
    assert found[0] == pytest.approx(expected, rel=1e-11)
    assert np.isfinite(found[1])
    assert name not in ("extended", "correlated") or found[1] == pytest.approx(expected, rel=1e-11)
    assert law(name, 0.7, own).logp(other, beside, own) == -math.inf


CONSTANT = r"(epsilon|sigma) must be a constant here.*neither a closed form nor.*64"


@pytest.mark.parametrize("name", ["lattice l1", "lattice l2", "lattice gaussian"])
def test_an_unknown_scale_needs_a_normaliser(name):
    zero, large = np.zeros((9, 9), dtype=int), all_margins(9, 9)
    with pytest.raises(NotImplementedError, match=CONSTANT):
        make(name, zero, pt.scalar(), large)
    assert np.isfinite(pm.logp(make(name, zero, 0.7, large), zero.astype(float)).eval())


MOVE, COVARIANCE = np.array([[2, -2, 0], [-2, 2, 0], [0, 0, 0]]), covariance_of(OPEN)
NINE = Invariants(Totals(frame_of(3, 3)))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (d.LatticeLaplace, [{"invariants": own} for own in (OPEN, all_margins(3, 3), NINE)]),
        (d.LatticeLaplace, [{"invariants": OPEN, **more} for more in ({}, {"norm": "l1"}, {"norm": "l2"})]),
        (d.CorrelatedGaussian, [{"covariance": m, "invariants": OPEN} for m in (COVARIANCE, 1 * COVARIANCE, 2 * COVARIANCE)]),
        (d.KNorm, [{"vertices": v, "invariants": HULL} for v in (VERTICES, VERTICES.copy(), 2 * VERTICES)]),
        (d.SubspaceNorm, [{"invariants": OPEN, **more} for more in ({}, {"norm": "l1"}, {"norm": "l2"})]),
        (d.SemiKNorm, [{"adjacency": number, "invariants": HULL} for number in (3, 3, 2)]),
    ],
)  # fmt: skip
def test_ops_with_other_parameters_are_other_ops(kind, parameters):
    """PyTensor merges and caches Ops that are equal: every parameter must be in __props__."""
    variables = [kind.dist(ZERO.astype(int), 0.7, **one) for one in parameters]
    ops = [variable.owner.op for variable in variables]
    assert ops[0] == ops[1] != ops[2]
    assert hash(ops[0]) == hash(ops[1])
    graphs = [pm.logp(variable, MOVE.astype(variable.dtype)) for variable in variables]
    first, second, third = pytensor.function([], graphs)()
    assert first == second != third


@pytest.mark.parametrize("own", [OPEN, WEIGHTED], ids=repr)
@pytest.mark.parametrize("name", ["extended", "correlated"])
def test_draws_in_coordinates_follow_the_law(name, own):
    """False-alarm rate 1e-4: sums of absolute (Laplace) or squared Mahalanobis (Gaussian) lengths are chi-square."""
    table, _ = two_tables(name, own)
    variable = make(name, table, 1.5, own)
    draws = variable.owner.op.rng_fn(np.random.default_rng(1), table, 1.5, size=(2000,))
    at, n = own.coordinates(draws - table), own.dimension
    assert np.allclose(own.from_coordinates(at), draws - table, atol=1e-10)
    length, degrees = 2.0 * np.abs(at).sum() / 1.5, 2 * n * len(draws)
    if name == "correlated":
        length, degrees = np.sum(at * np.linalg.solve(law(name, 1.5, own).covariance, at.T).T), n * len(draws)
    assert 5e-5 < chi2.cdf(length, degrees) < 1 - 5e-5
    np.testing.assert_array_equal(pm.distributions.distribution.support_point(variable).eval(), table)


def test_batches_of_draws_have_their_scales():
    location = np.arange(6.0).reshape(2, 3)
    mu, rng = np.stack([location, location + 5]), np.random.default_rng(1)
    op = d.ProjectedGaussian.dist(mu, np.array([1.0, 100.0]), invariants=SUM).owner.op
    draws = op.rng_fn(rng, mu, np.array([1.0, 100.0]), size=(300, 2)) - mu
    assert draws.shape == (300, 2, 2, 3)
    assert np.max(np.abs(SUM.matrix @ draws.reshape(-1, 6).T)) < 1e-9
    # Variances are 1/3 of sigma**2; 1800 dependent numbers each, six standard errors are below 20%.
    assert draws.std(axis=(0, 2, 3)) / [1.0, 100.0] == pytest.approx([math.sqrt(1 / 3)] * 2, rel=0.2)
    op = d.SubspaceNorm.dist(location, 0.7, norm="l2", invariants=TOTAL).owner.op
    draws = op.rng_fn(rng, mu, np.array([0.01, 100.0]), size=(50, 2)) - mu
    # Radii of mean 500 and 0.05 over five dimensions, in six cells; 30% are more than four standard errors.
    assert draws.std(axis=(0, 2, 3)) == pytest.approx(math.sqrt(5 * 6 / 6) * np.array([100.0, 0.01]), rel=0.3)
    assert np.max(np.abs(draws.sum(axis=(2, 3)))) < 1e-8
    free = d.SemiKNorm.dist(np.zeros((3, 3)), 0.5, adjacency=3, invariants=both_margins(3, 3))
    assert free.owner.op.rng_fn(rng, np.zeros((3, 3)), 0.5, (4,)).shape == (4, 3, 3)


@pytest.mark.system
@pytest.mark.compiled
def test_programs_in_compiled_code():
    # numba calls the solver; a batch in front of the table, and no warning about object mode.
    own, vertices = moves(3, 3)
    facets, program = SymmetricHull(vertices), Programs(vertices)
    tables = pt.tensor("tables", shape=(None, 2, 3, 3))
    graphs = [table_gauge(tables, hull, own) for hull in (facets, program)]
    gradients = [pt.grad(pt.sum(graph), tables) for graph in graphs]
    evaluate = pytensor.function([tables], [*graphs, *gradients])
    values = np.random.default_rng(2).normal(size=(3, 2, 3, 3))
    by_facets, by_program, first, second = evaluate(values)
    assert by_facets.shape == (3, 2)
    assert by_facets == pytest.approx(facets.gauge(own.coordinates(values)), rel=1e-12)
    assert by_program == pytest.approx(by_facets, rel=1e-12)
    assert second == pytest.approx(first, abs=1e-9)
    assert GaugeOp(program) == GaugeOp(Programs(vertices))
    assert GaugeOp(program) != GaugeOp(Programs(2 * vertices))


def test_in_a_model():
    table, other = two_tables("lattice l1", SUM)
    own, vertices = moves(2, 3)
    with pm.Model(coords=SUM.frame.coords) as model:
        x, sigma = pm.Poisson("x", 5.0, dims=("d0", "d1")), pm.HalfNormal("sigma", 2.0)
        d.ProjectedGaussian("free", x, sigma, invariants=SUM, dims=("d0", "d1"))
        d.LatticeLaplace("whole", x, 0.5, invariants=SUM, observed=other, dims=("d0", "d1"))
        d.KNorm("hull", x, 2.0, vertices=vertices, invariants=own, observed=other.astype(float))
    point = model.initial_point()
    assert np.array_equal(point["free"], point["x"])
    logp = model.compile_logp(vars=[model["whole"], model["hull"]])({**point, "x": table})
    laws = noise.LatticeLaplace(0.5).logp(other, table, SUM) + noise.KNorm(2.0, vertices).logp(other, table, own)
    assert logp == pytest.approx(laws, rel=1e-12)
    assert model.copy().compile_logp()(point) == pytest.approx(model.compile_logp()(point), rel=1e-14)
    assert np.all(np.isfinite(model.compile_dlogp()(point)))


THREE, COUNTY = np.zeros(3), Invariants(Totals(frame_of(3)))
LARGE, MANY = np.zeros(3000), Invariants(Totals(frame_of(3000)))  # more cells than a dense matrix is made for
OTHER_RULE = "stated in coordinates 'echelon-1', but these invariants .* 'helmert-1'"
test_bad_arguments_are_named = refused(
    (lambda: d.LatticeLaplace.dist(ZERO, 0.5, invariants="margins"), TypeError, r"must be a bayesdp\.Invariants, got str"),
    (lambda: d.ProjectedLaplace.dist(ZERO, 1.0, invariants=None), TypeError, r"must be a bayesdp\.Invariants"),
    (lambda: d.ProjectedGaussian.dist(ZERO, 0.5, invariants=SUM), ValueError, r"mu must .*, \(2, 3\), got \(3, 3\)"),
    (lambda: d.LatticeGaussian.dist(THREE, 0.5, invariants=SUM), ValueError, r"mu must .*, \(2, 3\), got \(3,\)"),
    (lambda: d.KNorm.dist(THREE, 1.0, vertices=VERTICES, invariants=HULL), ValueError, r"mu must .*\(3, 3\), got \(3,\)"),
    (lambda: d.LatticeLaplace.dist(ZERO, 0.5, invariants=OPEN, norm="max"), ValueError, "one of 'l1', 'l2', got 'max'"),
    (lambda: d.SubspaceNorm.dist(ZERO, 0.7, norm="l3", invariants=OPEN), ValueError, "'l1', 'l2', 'linf', got 'l3'"),
    (lambda: d.LatticeLaplace.dist(ZERO, 0.0, invariants=OPEN), ValueError, r"epsilon must be finite and .* 0, got 0\.0"),
    (lambda: d.ExtendedLaplace.dist(ZERO, -1.0, invariants=OPEN), ValueError, "b must be finite and greater than 0"),
    (lambda: d.KNorm.dist(ZERO, 0.0, vertices=VERTICES, invariants=HULL), ValueError, "epsilon must be finite and greater"),
    (lambda: d.CorrelatedGaussian.dist(ZERO, covariance=np.eye(2), invariants=OPEN), ValueError, "2 rows, .* leave 4 dim"),
    (lambda: d.CorrelatedGaussian.dist(ZERO, covariance=-np.eye(4), invariants=OPEN), ValueError, "smallest .* is -1.0"),
    (lambda: d.ExtendedLaplace.dist(ZERO, 1.0, invariants=OPEN, coordinates="echelon-1"), ValueError, OTHER_RULE),
    (lambda: d.ExtendedLaplace.dist(ZERO, 1.0, invariants=OPEN, coordinates="mine"), ValueError, "'echelon-1', got 'mine'"),
    (lambda: d.KNorm.dist(THREE, 1.0, vertices=VERTICES, invariants=COUNTY), ValueError, "have 4 coord.* leave 2 dimensions"),
    (lambda: pm.logp(d.ExtendedLaplace.dist(LARGE, 1.0, invariants=MANY), LARGE), NotImplementedError, "3000 cells and 2999 free"),
    (lambda: table_gauge(pt.matrix(), SymmetricHull(VERTICES), both_margins(50, 50)), NotImplementedError, "more than 4000000"),
    (lambda: d.ProjectedLaplace.dist(ZERO, 1.0, invariants=OPEN), NotImplementedError, "9 cells .* of rank 5.*RowSpaceNoise"),
    # A parameter that is None is no parameter that is left out.
    (lambda: d.SubspaceNorm.dist(THREE, 1.0, invariants=COUNTY, norm=None), ValueError, "norm must be one of"),
    (lambda: d.SemiKNorm.dist(THREE, 1.0, invariants=COUNTY, adjacency=None), TypeError, "adjacency must be a positive int"),
    (lambda: d.KNorm.dist(THREE, 1.0, invariants=COUNTY, vertices=None), (TypeError, ValueError), "vertices must hold"),
    (lambda: d.CorrelatedGaussian.dist(THREE, invariants=COUNTY, covariance=None), (TypeError, ValueError), "must hold"),
)  # fmt: skip
