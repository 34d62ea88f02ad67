"""Files that version 0.1 wrote are read, with the same content: the promise of docs/POLICY.md."""

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.cli import main
from bayesdp.cli.files import read_posterior
from bayesdp.mechanisms.bounded.statistic_release import StatisticRelease
from bayesdp.storage.posteriors import without_rounding_errors
from bayesdp.streaming import fitting
from tests.golden import differences
from tests.storage.examples import EXAMPLES, STATISTICS, lattice
from tests.streaming.cases import FRAME, PRIOR, small_release

FOLDER = Path(__file__).parents[1] / "data" / "written_by_0_1"
"""Files that were written once, while 0.1.0 was made; a later version that writes other files gets a folder of its own."""
OF_RUN = json.loads((FOLDER / "run" / "run.json").read_text(encoding="utf-8"))["run"]


def test_releases_are_those_that_were_written_in_small_files_of_0_1():
    for name, expected in {own: make() for own, make in EXAMPLES.items()}.items():
        release = bdp.Release.from_netcdf(FOLDER / f"{name.replace(' ', '_')}.nc")
        assert release == expected
        assert release.guarantee == expected.guarantee
        assert str(release) == str(expected)
    assert StatisticRelease.from_netcdf(FOLDER / "statistics.nc") == STATISTICS
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_500_000
    assert OF_RUN["bayesdp"].startswith("0.1.0")


@pytest.mark.parametrize(("name", "release"), [("sampled", lattice), ("streamed", small_release)])
def test_posteriors_have_their_draws_release_and_summary(name, release, capsys):
    tree, read = read_posterior(str(FOLDER / f"{name}.nc"))
    assert read == release()
    with h5py.File(FOLDER / f"{name}.nc") as file:  # another reader
        np.testing.assert_array_equal(tree["posterior"]["x"].values, file["posterior/x"][...])
    for exact in read.exact:
        answers = exact.query.apply(tree["posterior"]["x"].values)
        np.testing.assert_array_equal(answers, np.broadcast_to(exact.values, answers.shape))
    stored = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    main(["summary", str(FOLDER / f"{name}.nc"), "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert [own for own in differences(found, stored, rtol=1e-10) if not own.endswith("only now")] == []


def test_sums_of_a_relaxation_are_whole_where_all_draws_are():
    draws = np.array([[7.0 + 1e-12, 2.0], [7.0, 2.6]])
    np.testing.assert_array_equal(without_rounding_errors(draws), [[7.0, 2.0], [7.0, 2.6]])


def test_another_version_does_not_go_on_with_it_and_names_both_and_another_form_is_refused(tmp_path, monkeypatch):
    """A form is another one with what a run says of itself as it was then: states were kept as they never were in a release."""
    run = shutil.copytree(FOLDER / "run", tmp_path / "run")  # reading it writes into it
    length = {"draws": 40, "tune": 20, "chains": 2, "record": {"x": bdp.Identity(FRAME)}, "random_seed": 7}
    given = {**length, "quiet": True, "progressbar": False, "journal": run, "resume": True}
    for where, name, value, message in (
        (bdp, "__version__", "0.2.0", rf"another version of bayesdp \({OF_RUN['bayesdp']}\).* this one \(0\.2\.0\)"),
        (fitting, "fingerprint", lambda **_: OF_RUN, "is of another run: it was written in the form 1"),
    ):
        monkeypatch.setattr(where, name, value)
        with pytest.raises(ValueError, match=message):
            bdp.fit_hierarchy(small_release(), PRIOR, **given)
        monkeypatch.undo()
    assert {path.name for path in (FOLDER / "run").iterdir()} <= {path.name for path in run.iterdir()}
