"""``bayesdp calibrate --scheduler``: its process is killed while the cluster simulates for it."""

import sys
from pathlib import Path

import pytest
import xarray as xr

from tests.calibration.cluster import killed, records, started, wait_for, work_left
from tests.cli.test_calibrate import MODEL

pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc"),
    pytest.mark.system,
]


@pytest.mark.slow
def test_calibrate_on_a_cluster_goes_on_after_a_kill(run):
    """The command itself: the same ranks as of a run in one process that nobody stopped."""
    with started() as scheduler:
        Path("right.py").write_text(MODEL.replace("EPSILON", "1.0"))
        sizes = ["calibrate", "right.py", "--n", "12", "--draws", "100", "--tune", "10", "--quiet", "-o"]
        on_cluster = [*sizes, "sbc.nc", "--scheduler", scheduler]
        journal = Path("sbc.nc.partial.jsonl")
        killed([sys.executable, "-m", "bayesdp", *on_cluster], journal, 2)
        had = records(journal)
        assert 2 <= len(had) < 12
        assert not Path("sbc.nc").exists()
        wait_for(lambda: work_left(scheduler) == (0, 0), 30.0)
        assert run(*on_cluster).status == 0
        assert not journal.exists()
        assert run(*sizes, "one.nc").status == 0
    with xr.open_datatree("sbc.nc", engine="h5netcdf") as first, xr.open_datatree("one.nc", engine="h5netcdf") as other:
        for group in ("prior_sbc", "dispersion_sbc", "verdict"):
            xr.testing.assert_equal(first[group].to_dataset(), other[group].to_dataset())
