"""``bayesdp import DATA --noise noise.json``: the sidecar says what other options would say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bayesdp.release import Release
from tests.cli.conftest import failed
from tests.storage.examples import EXAMPLES


@pytest.mark.parametrize("name", ["lattice", "several", "scalar"])
def test_data_and_noise_make_the_release(name, run):
    release = EXAMPLES[name]()
    release.to_csv("DATA.csv", noise="noise.json")
    result = run("import", "DATA.csv", "--noise", "noise.json", "-o", "release.nc")
    assert result.status == 0, result.err
    assert "written to release.nc" in result.out
    assert Release.from_netcdf("release.nc") == release


def test_errors_are_one_line(run):
    EXAMPLES["lattice"]().to_csv("DATA.csv")
    noise = ("--noise", "DATA.noise.json")
    failed(run("import", "DATA.csv", "--noise", "none.json", "-o", "r.nc"), "there is no file 'none.json'")
    failed(run("import", "none.csv", *noise, "-o", "r.nc"), "there is no file 'none.csv'")
    failed(
        run("import", "DATA.csv", "--law", "laplace b=1", *noise, "--exact", "m.csv", "--ignore", "x", "-o", "r.nc"),
        "--noise says what the file is, so leave out --law or --noisy, --exact, --ignore; or correct DATA.noise.json",
    )
    failed(run("import", "DATA.csv", *noise, "--postprocessing", "clipped", "-o", "r.nc"), "leave out --postprocessing")
    plain = json.loads(Path("DATA.noise.json").read_text())
    plain["measured"][0]["law"]["epsilon"] = -1
    Path("DATA.noise.json").write_text(json.dumps(plain))
    failed(run("import", "DATA.csv", *noise, "-o", "r.nc"), "DATA.noise.json: $.measured[0].law: ", "epsilon must be")
    assert not Path("r.nc").exists()


def test_rounded_numbers_are_warned_of(run):
    labels = [f"a{i}" for i in range(60)]
    Path("DATA.csv").write_text("area,n\n" + "".join(f"{label},{5 * (i % 7)}\n" for i, label in enumerate(labels)))
    part = {"column": "n", "query": {"kind": "cells"}, "law": {"law": "discrete-gaussian", "sigma": 20}}
    table = {"dimensions": [{"name": "area", "labels": labels}]}
    Path("noise.json").write_text(json.dumps({"noise_json": 1, "table": table, "measured": [part]}))
    result = run("import", "DATA.csv", "--noise", "noise.json", "-o", "release.nc")
    assert result.status == 0
    assert "bayesdp import: warning: DATA.csv: " in result.err
