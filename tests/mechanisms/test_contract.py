"""One contract for all mechanisms that release tables: what a release holds, what is read back, what is never kept."""

import inspect
import json
import math
import pickle

import numpy as np
import pytest

from bayesdp import mechanisms
from bayesdp.mechanisms import Mechanism
from bayesdp.release import Release
from tests.mechanisms.examples import LABELS, MAKES, VARIANTS

TABLE = np.array([[15, 1], [20, 10]])
ONE_OF_EACH, VARIED = ([make() for make in makes.values()] for makes in (MAKES, VARIANTS))
BY_NAME = pytest.mark.parametrize("mechanism", [*ONE_OF_EACH, *VARIED], ids=MAKES | VARIANTS)


def test_every_mechanism_for_tables_has_an_example():
    kinds = [own for own in vars(mechanisms).values() if inspect.isclass(own) and issubclass(own, Mechanism)]
    assert {own.__name__ for own in kinds if not inspect.isabstract(own)} == set(MAKES)


@BY_NAME
def test_a_release_publishes_noisy_answers_and_exact_invariants(mechanism):
    release = mechanism.release(TABLE, rng=1)
    [measured] = release.measurements
    assert (release.simulated, release.guarantee.simulated) == (True, True)
    assert (measured.law, measured.query) == (mechanism.law, mechanism.released_query)
    assert measured.values.dtype == (np.int64 if mechanism.law.integer else np.float64)
    assert mechanism.release(TABLE, rng=1) == release
    published = mechanism.release(TABLE)
    assert (published.simulated, published.guarantee.simulated) == (False, False)
    if release.exact:
        told = np.concatenate([own.values.ravel() for own in release.exact])
        np.testing.assert_array_equal(told, mechanism.invariants.query.apply(TABLE).ravel())
        if measured.query.is_identity:
            np.testing.assert_allclose(mechanism.invariants.query.matrix @ measured.values.ravel(), told, atol=1e-9)
    noise = mechanism.noise(1, 2)
    assert noise.shape == (2, *measured.query.shape)
    exact = measured.query.apply(TABLE)
    np.testing.assert_allclose(measured.values, exact + mechanism.noise(1, 1)[0], rtol=1e-12, atol=1e-9)
    own = mechanism.logp(measured.values, TABLE)
    assert np.isfinite(own)
    relations = mechanism.answer_invariants
    values, location = (np.reshape(one, relations.frame.shape) for one in (measured.values, exact))
    assert own == pytest.approx(mechanism.law.logp(values, location, relations), rel=1e-12)
    if relations.rank and not mechanism.law.independent:
        assert mechanism.logp(measured.values, TABLE + 1) == -math.inf  # other totals
    if (grid := getattr(mechanism, "grid", None)) is not None:
        np.testing.assert_array_equal(measured.values / grid, np.rint(measured.values / grid))
    with pytest.raises(ValueError, match="table must"):
        mechanism.release(TABLE - 18)


@BY_NAME
def test_descriptions_pickles_and_files_give_it_back_and_no_confidential_count(mechanism, tmp_path):
    description = json.loads(json.dumps(mechanism.describe()))
    for again in (
        Mechanism.from_description(description, LABELS),
        type(mechanism).from_description(description, LABELS),
        pickle.loads(pickle.dumps(mechanism)),
    ):
        assert again == mechanism
        assert (type(again), again.law, again.guarantee) == (type(mechanism), mechanism.law, mechanism.guarantee)
    release = mechanism.release(TABLE, rng=2)
    if mechanism in ONE_OF_EACH:
        release.to_netcdf(tmp_path / "release.nc")
        stored = Release.from_netcdf(tmp_path / "release.nc")
    else:
        stored = Release.from_dataset(release.to_dataset())
    assert stored == release
    assert (stored.guarantee, stored.measurements[0].law) == (release.guarantee, mechanism.law)
    assert Mechanism.from_description(stored.mechanism, stored.frame) == mechanism
    # No confidential count is kept: large odd ones, of which no digit may be found in anything that is published or kept.
    secret = mechanism.release(np.array([[7654321, 0], [0, 8765432]])).guarantee
    kept = [str(description), repr(mechanism), str(secret), pickle.dumps(mechanism, 0).decode("latin-1")]
    assert not any(digits in text for digits in ("7654321", "8765432") for text in kept)
