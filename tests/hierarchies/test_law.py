"""The moves of a hierarchy leave its posterior as it is: sweeps from exact draws against all tables that there are."""

import numpy as np
import pytest
from scipy.stats import t as student

from bayesdp.hierarchies.kernel import sweeps
from tests.hierarchies.cases import CASES, Case, after_one_sweep, drawn

pytestmark = pytest.mark.system

RATE, STARTS = 1e-5, 3_000  # false alarms of each comparison


def _after_one_sweep(case, mix=None, typical=None):
    """P-value of the tables after one sweep from exact draws; `typical` are counts that choose donors and visits."""
    chain, listed = case.chain(3), case.enumerate()
    chain.load(listed[0][0])
    if typical is not None:
        chain.choose_donors(typical)
    if mix is not None:
        chain.mix[:] = mix
    return after_one_sweep(chain, *listed, STARTS)[0]


def _only(**moves):
    mix = np.zeros(len(sweeps.MIX), dtype=np.int64)
    for name, value in moves.items():
        mix[getattr(sweeps, name)] = value
    return mix


@pytest.mark.parametrize(
    ("name", "mix"),
    [
        *((name, None) for name in CASES),
        ("groups of four", _only(IN_GROUP=1, FEW=1)),
        ("exact total", _only(IN_GROUP=1, FEW=2)),
        ("exact total", _only(DONORS=1)),
        ("three levels, Poisson", _only(CROSS_DONORS=4)),
        ("structural zeros", _only(CROSS_CELLS=100)),
        ("three levels, Poisson", _only(NEAR=130)),
        ("structural zeros", _only(NEAR=30)),
        ("exact totals of tracts", _only(IN_GROUP=0, GROUP_SQUARES=3)),
        ("limits of sums", _only(SQUARES=100)),
        ("limits of sums", _only(SUMS=100)),
        ("structural zeros", _only(SUMS=100)),
        ("nothing exact", _only(SINGLE=100)),
    ],
    ids=lambda own: own if isinstance(own, str) else "",
)
def test_one_sweep_from_exact_draws(name, mix):
    """Where nothing is exact there are limits, so that all tables can be listed; shapes differ between leaves."""
    cases = CASES | {"nothing exact": Case((2, 2, 2), "AA", 4, exact=(), limits=True)}
    assert _after_one_sweep(cases[name], mix) > RATE


@pytest.mark.parametrize("mix", [_only(DONORS=1), _only(NEAR=50)])
@pytest.mark.parametrize("name", ["exact total", "structural zeros"])
def test_some_cells_are_visited_more_often(name, mix):
    """How often a cell is visited was chosen before, by typical counts, and not by the table."""
    chain = CASES[name].chain(1)
    typical = np.resize([0.0, 3.0, 200.0, 0.7], chain.structure.free.shape)
    chain.choose_donors(typical)
    assert set(chain.state.visits) == {1, 3}
    assert _after_one_sweep(CASES[name], mix, typical=typical) > RATE


def test_siblings_are_tied_where_the_node_above_is_known_better_and_which_leaves_are_near_by():
    near = {name: int(case.chain(1).mix[sweeps.NEAR]) for name, case in CASES.items()}
    assert near.pop("precise counties") > 0
    assert not any(near.values())
    county = ("county", "age", "race")
    # A total, which exchanges within a leaf do not change; and leaves that are all siblings.
    for counties, noise in (("AAB", (county, 4.5)), ("AAB", (("county",), 0.1)), ("AAA", (county, 0.6))):
        own = Case((3, 2, 2), counties, 3, noise=((("tract", "age", "race"), 4.0), noise))
        assert own.chain(1).mix[sweeps.NEAR] == 0
    # Leaves near by are under the lowest node that has others: counts go to another county only through a leaf that is alone in its.
    noise = ((("tract", "age", "race"), 4.0), (("county", "age"), 4.0))
    for counties, through in (("AABBC", True), ("AABB", False)):
        chain = Case((len(counties), 2, 2), counties, 30, noise=noise).chain(1)
        chain.load(np.random.default_rng(1).multinomial(30, np.full(4 * len(counties), 0.25 / len(counties))))
        chain.mix[:] = _only(NEAR=100)
        tables = np.stack([*drawn(chain, 50)])
        assert chain.structure.path.shape[1] == 3
        first = tables[:, :2].sum(axis=1)
        assert (first != first[0]).any() == through
        assert (tables != tables[0]).any()


def test_windows_of_sums_of_lines_do_not_depend_on_the_table():
    """Lines longer than there is room for, with limits that never bind: ends of the line that move with the table would widen it."""
    case = Case((2, 1, 1), "AA", 400, noise=((("tract",), 7.07),))
    tables, probability = case.enumerate()
    mean = tables[:, 0] @ probability
    chain = case.chain(3)
    chain.load(tables[probability.argmax()])
    chain.mix[:] = _only(SUMS=100)
    chain.state = chain.state._replace(limited=True, weights=np.zeros(50))
    away = np.abs(np.array([table[0, 0] for table in drawn(chain, 100_000)]) - mean)
    batches = away.reshape(100, -1).mean(axis=1)
    error = (batches.mean() - np.abs(tables[:, 0] - mean) @ probability) / (batches.std(ddof=1) / 10.0)
    assert abs(error) < student.isf(0.5 * RATE, 99)
