import json

import numpy as np
import pytest

from bayesdp.calibration import sbc, study, verdict_of
from bayesdp.calibration.quantities import EXACT_ANSWERS
from tests.calibration import models
from tests.calibration.test_coverage import odd_fails

QUICK = {"seed": 8, "draws": 200, "tune": 30, "progressbar": False}


@pytest.fixture(scope="module")
def three():
    return sbc(models.simulate, models.build, n=3, **QUICK)


@pytest.mark.system
def test_the_right_posterior_passes():
    right = sbc(models.simulate, models.build, n=40, **QUICK)
    assert right["verdict"].attrs["calibrated"] == 1
    assert right["verdict"].attrs["failed"] == 0
    assert right.attrs["model_reused"] == "True"
    names = list(right["prior_sbc"].to_dataset().data_vars)
    cells = [f"x[County {k}]" for k in range(1, 11)]
    assert names == [*cells, "x: all squared errors", "log-likelihood", EXACT_ANSWERS]
    assert verdict_of(right).calibrated


# How many simulations it takes to notice each error, at a false alarm of 0.01 over all quantities.
@pytest.mark.parametrize(
    ("build", "n", "where"),
    [
        pytest.param(models.noise_ignored, 10, "x[", id="noise ignored"),
        pytest.param(models.forgetful, 8, EXACT_ANSWERS, id="invariants ignored"),
        pytest.param(models.narrow(1.5), 12, "log-likelihood", id="scale too small"),
        pytest.param(models.narrow(1 / 1.5), 12, "log-likelihood", id="scale too large"),
        pytest.param(models.narrow(1.2), 40, "log-likelihood", id="by a fifth too small", marks=pytest.mark.slow),
        pytest.param(models.narrow(1 / 1.2), 40, "log-likelihood", id="by a fifth too large", marks=pytest.mark.slow),
    ],
)
def test_deliberate_errors_are_caught(build, n, where):
    result = sbc(models.simulate, build, n=n, **QUICK)
    assert result["verdict"].attrs["calibrated"] == 0
    assert verdict_of(result).worst.name.startswith(where)
    assert "NOT calibrated" in result["verdict"].attrs["message"]


def test_a_chain_that_is_too_short_for_a_rank_is_drawn_again_longer(three, monkeypatch):
    settings, drawn, sample = {"n": 2, "seed": 3, "draws": 12, "tune": 20, "progressbar": False}, [], study.quiet_draws

    def noted(model, chain, seed):
        drawn.append((chain["tune"], chain["draws"]))
        return sample(model, chain, seed)

    monkeypatch.setattr(study, "quiet_draws", noted)
    result = sbc(models.simulate, models.build, ["x"], **settings)
    assert result["verdict"].attrs["failed"] == 0
    assert drawn[:2] == [(20, 12), (80, 48)]  # tuned as many times as long: the start is forgotten as slowly
    assert (result["fits"]["longer"] >= 4).all()  # half of 12 draws, for the spread of all cells, are never enough
    assert "2 of 2 chains had too few effective draws" in result["verdict"].attrs["message"]
    assert (three["fits"]["longer"] == 1).all()
    assert "longer" not in three["verdict"].attrs["message"]
    monkeypatch.setattr(study, "_FEWEST", 1000)
    words = r"all 2 simulations failed.* chain of 192 draws has an effective sample size of .* for x\[County 1\]"
    with pytest.raises(ValueError, match=words):
        sbc(models.simulate, models.build, ["x"], **settings)


def test_functions_beside_the_default_quantities(tmp_path, three):
    def spread(values, release):
        return values["x"].std("county")

    def run(**more):
        return sbc(models.simulate, models.build, **{"n": 3, **QUICK, **more})

    result = run(also={"spread": spread}, path=tmp_path / "a.jsonl")
    ranks, before = (own["prior_sbc"].to_dataset() for own in (result, three))
    assert list(ranks.data_vars) == [*before.data_vars, "spread"]
    # The same ranks as without it, and no going on with other quantities.
    np.testing.assert_array_equal(ranks["x[County 3]"].values, before["x[County 3]"].values)
    for more, error, message in (
        ({"path": tmp_path / "a.jsonl"}, ValueError, "is of another run: its quantities"),
        ({"also": {"x": spread}}, ValueError, "also names 'x', which is among the quantities already"),
        ({"also": ["x"]}, TypeError, "also must be a mapping from names to functions, got list"),
        ({"also": {"spread": 1.0}}, TypeError, "must be a function of values and release"),
    ):
        with pytest.raises(error, match=message):
            run(**more)


def test_ties_are_ties_whatever_the_rounding():
    settle = study._settled
    truth, draws = settle(30.0, np.array([[30.0 + 4e-15, 30.0]]))
    assert truth == draws[0, 0] == draws[0, 1]
    assert settle(31.0, np.array([[30.0 + 4e-15, 30.0]]))[0] == 31.0
    truth, draws = settle(-3.7 + 1e-15, np.array([[-3.7, -3.7 - 2e-15, -1e3 / 3.0, -1e3 / 3.0 + 1e-13]]))
    assert truth == draws[0, 0] == draws[0, 1]
    assert draws[0, 2] == draws[0, 3] == pytest.approx(-1e3 / 3.0, rel=1e-9)
    whole = np.array([[2.0**60, 2.0**60 + 512.0]])
    assert settle(2.0**60, whole)[1] is whole
    tiny = np.array([[1e-200, 3e-200]])
    np.testing.assert_allclose(settle(2e-200, tiny)[1], tiny, rtol=1e-9)


def test_failed_fits_are_counted_and_listed_and_names_that_disagree_refused():
    result = sbc(models.simulate, models.build, {"total": odd_fails}, n=8, **QUICK)
    errors = [str(e) for e in result["failures"]["error"].values]
    assert 0 < len(errors) < 8
    assert all(e == "RuntimeError: odd total" for e in errors)
    assert f"{len(errors)} of 8 simulations failed" in result["verdict"].attrs["message"]
    assert result["prior_sbc"].sizes["draw"] == 8 - len(errors)
    with pytest.raises(ValueError, match="all 3 simulations failed"):
        sbc(models.simulate, models.build, ["x"], n=3, **QUICK | {"step": "none"})
    nameless = r"simulate gives no 'x'.*simulate gives 'y', which the model does not have"
    for simulate, build, quantities, error, message in (
        (lambda rng: ({"y": 1}, models.simulate(rng)[1]), models.build, None, ValueError, nameless),
        (models.simulate, models.build, ["z"], ValueError, "quantities names 'z'"),
        (lambda rng: 3, models.build, None, TypeError, "simulate must give back"),
        (models.simulate, lambda release: None, None, TypeError, r"build_model must give back a pymc\.Model"),
    ):
        with pytest.raises(error, match=message):
            sbc(simulate, build, quantities, n=2, **QUICK)


def test_a_stopped_run_goes_on(tmp_path):
    path = tmp_path / "run.jsonl"

    def run(n, **more):
        return sbc(models.simulate, models.build, ["x"], n=n, **QUICK, **more)

    run(2, path=path)
    before = path.read_text().splitlines()
    assert len(before) == 3
    result = run(4, path=path)
    after = path.read_text().splitlines()
    assert after[:3] == before
    assert [json.loads(line)["number"] for line in after[1:]] == [0, 1, 2, 3]
    assert result["prior_sbc"].to_dataset().identical(run(4)["prior_sbc"].to_dataset())
