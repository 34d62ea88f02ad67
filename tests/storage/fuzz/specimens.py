"""One valid file, or a few, of every kind that the package reads: what the mutations start from."""

import json
import shutil

import numpy as np
import xarray as xr

from bayesdp.datasets import write_synthetic_nmf
from bayesdp.inference import diagnose
from bayesdp.mechanisms import BoundaryInflatedLaplace
from bayesdp.storage import write_draws
from tests.storage.examples import EXAMPLES, STATISTICS, TABLE, lattice, write_columns

JOURNAL_NUMBERS = 12  # simulations that the journal of a calibration has
OF_SIMULATION = {"seconds": 0.1, "dispersion": {"x[0]": 0.5}, "ess": 40.0, "divergences": 0, "longer": 1}
_TEXTS = {
    "long": "county,education,count\nAlpha,Low,14\nAlpha,High,2\nBeta,Low,23\nBeta,High,9\nGamma,Low,2\nGamma,High,6\n",
    "wide": "county,Low,High\nAlpha,14,2\nBeta,23,9\n017,2,6\n",
    "margins": "county,education,total\nAlpha,,20\nBeta,,30\nGamma,,10\n*,Low,38\n*,High,22\n,,60\n",
    "populations": (
        "state_fips,county_fips,state,county,pop2010\n17,001,Illinois,Adams County,67103\n17,003,Illinois,Alexander County,8238\n"
        '18,001,Indiana,"Adams County",34387\n'
    ),
    "office": (
        "Population by area,,,\narea,sex,count,flag\n01001,F,1 234,\n01001,M,..,\n01001,Total,2 500,r\n01002,F,-,\n01002,M,7,r*\n"
        "01002,Total,7,\n01003,F,,x\n01003,M,12,\n,,,\nSource: an office,,,\n"
    ),
    "office_wide": "area,F,M,Total\n01001,1 234,..,2 500 r\n01002,-,7*,7\nTotal,x,<5,2 507\n",
    "wikimedia": (
        "France\tFR\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t126\nGermany\tDE\ten.wikipedia\t20408\tMarie_Curie\tQ7186\t211\n"
        "Germany\tDE\ten.wikipedia\t736\tAlbert_Einstein\tQ937\t95\n"
    ),
    "report": (
        "DPEngine method: aggregate\nComputation graph:\n 1. Public partition selection: dropped non public partitions\n"
        " 2. Computed DP count with\n    Laplace mechanism:  parameter=12.5  eps=2.0  l1_sensitivity=25.0\n 3. Done\n"
    ),
    "ptable": "i,j,p,v\n0,0,1,0\n1,0,0.5,-1\n1,1,0.25,0\n1,3,0.25,2\n2,1,0.125,-1\n2,2,0.75,0\n2,3,0.125,1\n",
}


def _demonstration():
    counted = ("nh_white", "nh_black", "nh_aian", "nh_asian", "nh_nhpi", "nh_other", "nh_two", "hispanic")
    names = ["state_fips", "county_fips", "county", "pop2010_census", "pop2010_das", *(f"{own}_das" for own in counted)]
    for sex, short in (("male", "m"), ("female", "f")):
        names += [f"{sex}_das", *(f"{short}_age{i:02d}_das" for i in range(1, 24))]
    values = ["06", "003", "Alpine County", "45", "46", "40", *["0"] * 6, "6", *["23", *["1"] * 23] * 2]
    return ",".join(names) + "\n" + ",".join(values) + "\n"


def posterior():
    """A posterior as `bayesdp.sample` leaves it, of draws that were made up: along the one move that both margins leave free."""
    release, rng = lattice(), np.random.default_rng(1)
    fiber, guarantee = release.fiber, release.guarantee
    (lower, upper), point = fiber.bounds(), fiber.find_point()
    moves = rng.integers(-3, 4, (2, 40, 3))
    moves[..., 2] = -moves[..., 0] - moves[..., 1]
    tables = point + np.stack([moves, -moves], axis=-1)
    tables = np.where(fiber.members(tables)[..., None, None], tables, point)
    x = xr.DataArray(tables, dims=("chain", "draw", "county", "education"), coords=TABLE.coords)
    rate = xr.DataArray(rng.gamma(3.0, size=(2, 40)), dims=("chain", "draw"))
    draws = xr.Dataset({"x": x, "rate": rate}).assign_coords(chain=[0, 1], draw=np.arange(40))
    limits = {"lower": lower, "upper": upper, "determined": fiber.determined()}
    tree = xr.DataTree.from_dict({
        "posterior": draws,
        "release": release.to_dataset(),
        "guarantee": xr.Dataset(attrs={"guarantee": json.dumps(guarantee.to_dict()), "text": str(guarantee)}),
        "fiber": xr.Dataset(
            {name: release.frame.data_array(own) for name, own in limits.items()},
            attrs={"variable": "x", "bounds_exact": 1, "determined_complete": 1, "connectivity": "proved by hand", "proved": 1},
        ),
        "sample_stats": xr.Dataset({"moved": (("chain", "draw"), rng.random((2, 40)))}),
        "diagnostics": diagnose(draws, {"x": fiber.determined()}),
    })  # fmt: skip
    tree.attrs.update({"bayesdp_version": "0", "pymc_version": "0", "seed": "1", "command": "", "prior": "x ~ made up"})
    return tree


def journal_lines(head):
    """A journal as `bayesdp.calibration.study` writes it, with a failure and a dead process; `head` is what the run is."""
    rng = np.random.default_rng(2)
    records = []
    for number in range(JOURNAL_NUMBERS):
        good = {"ranks": {"x[0]": float(rng.random())}, **OF_SIMULATION}
        records.append({"number": number, **(good if number != 5 else {"error": "ValueError: no"})})
    records.insert(3, {"number": 2, "error": "its process died", "again": True})
    return "".join(json.dumps(own) + "\n" for own in [head, *records])


def write_specimens(folder):
    """Write all of them; the names are those that the targets ask for."""
    for name, make in EXAMPLES.items():
        plain = name.replace(" ", "_")
        make().to_netcdf(folder / f"{plain}.nc")
        (folder / f"{plain}_columns").mkdir()
        write_columns(make(), folder / f"{plain}_columns" / "DATA.csv")
    write_draws(posterior(), folder / "posterior.nc")
    STATISTICS.to_netcdf(folder / "statistics.nc")
    share = BoundaryInflatedLaplace(1.0, 0.02, (0.0, 1.0), names=["share", "other"])
    share.release([0.37, 0.9], rng=5).to_netcdf(folder / "stated.nc")
    table = TABLE.assign_coords(state=("county", ["IL", "IL", "IN"])).to_dataset(name="count")
    table.to_netcdf(folder / "table.nc", engine="h5netcdf")
    units = {"05010001": [3, 40], "05010002": [0, 7]}
    given = {"product": "pl94-unit", "level": "County", "variance": 25.0, "constraints": False, "rng": 1}
    made = write_synthetic_nmf(folder / "nmf", units, **given)
    shutil.copyfile(made / "County.parquet/DPQuery/State=50/part-0.parquet", folder / "part-0.parquet")
    shutil.rmtree(folder / "nmf")
    for name, text in (_TEXTS | {"demonstration": _demonstration()}).items():
        (folder / name).with_suffix(".txt" if name == "report" else ".csv").write_text(text, encoding="utf-8")
