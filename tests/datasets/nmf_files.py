"""Small noisy measurement files for tests, written by hand and by the package."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bayesdp.datasets import synthetic_spine

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
VERMONT = "050100011"
PERSON = ("hhgq", "votingage", "hispanic", "cenrace")


def write_rows(file, rows, integer=None):
    """Write rows as they are, with lists of integers of one width."""
    file.parent.mkdir(parents=True, exist_ok=True)
    kinds = {"value": pa.list_(integer or pa.int32()), "query_shape": pa.list_(pa.int32()), "variance": pa.float32()}
    names = dict.fromkeys(key for row in rows for key in row)
    pq.write_table(pa.table({name: pa.array([row.get(name) for row in rows], kinds.get(name)) for name in names}), file)


def row(geocode, name, bins, shape, value, variance=0.0, sign=None, axes=PERSON):
    found = {"geocode": geocode, "query_name": name, **dict(zip(axes, bins, strict=True)), "query_shape": shape}
    return found | {"value": value, "variance": variance} | ({} if sign is None else {"sign": sign})


def total_row(geocode, value):
    return row(geocode, "total_dpq", ("*",) * 4, [1, 1, 1, 1], [value], 4.0)


# Of 8 kinds of quarters 252 cells each, another order in each; they add up to what is published of the kinds, within its noise.
DETAILED = [
    16 * (kind == 0) + (kind == 5) + int(own)
    for kind in range(8)
    for own in np.roll([*range(-126, 0), *range(1, 127)], kind)
]
KINDS = [4000, 3, 0, 40, 0, 200, -4, 30]


def limits():
    """What is known of persons by kind of quarters in the one county."""
    given = ("hhgq", "*", "*", "*"), [8, 1, 1, 1]
    least = row(VERMONT, "hhgq_total_lb_con", *given, [0, 5, 0, 20, 0, 0, 0, 0], sign=">=")
    return [least, row(VERMONT, "hhgq_total_ub_con", *given, [6000] * 8, sign="<=")]


def minimal(root):
    """The fixture of the notes on the format: one county, persons and housing units."""
    measured = [
        row(VERMONT, "total_dpq", ("*",) * 4, [1, 1, 1, 1], [4270], 100.0),
        row(VERMONT, "hhgq_dpq", ("hhgq", "*", "*", "*"), [8, 1, 1, 1], KINDS, 100.0),
        row(VERMONT, "detailed_dpq", ("detailed",) * 4, [8, 2, 2, 63], DETAILED, 4.0),
    ]
    write_rows(file_of(root, "County"), measured)
    minors = row(VERMONT, "nurse_nva_0_con", ("gqNursingTotal", "nonvoting", "*", "*"), [1, 1, 1, 1], [0], sign="=")
    write_rows(file_of(root, "County", "Constraint"), [*limits(), minors])
    units = row(VERMONT, "detailed_dpq", ("detailed",), [2], [30, 80], 25.0, axes=("h1",))
    write_rows(file_of(root, "County", product="Unit"), [units])
    total = row(VERMONT, "total_con", ("*",), [1], [100], sign="=", axes=("h1",))
    write_rows(file_of(root, "County", "Constraint", "Unit"), [total])
    return root


def truth_of(blocks, seed=0):
    """Persons of blocks: households, one dormitory in some, few nursing homes."""
    rng = np.random.default_rng(seed)
    found = {}
    for block in blocks:
        table = np.zeros((8, 2, 2, 63), dtype=np.int64)
        table[0] = rng.poisson(rng.gamma(0.2, 2.0, (2, 2, 63)))
        if rng.random() < 0.5:
            table[5, 1] = rng.poisson(0.3, (2, 63))
        table[3, 1, 0, 0] = rng.poisson(0.5)
        found[block] = table
    return found


def split_state(seed=0):
    """Persons of a state with both branches: two counties in one, one area in the other."""
    blocks = synthetic_spine("30", counties=2, tracts=2, blocks=2)
    return truth_of([*blocks, *synthetic_spine("30", counties=1, blocks=2, aian=True)], seed)


def rewrite(file, change):
    pq.write_table(change(pq.read_table(file, partitioning=None)), file)


def file_of(root, level="Tract", kind="DPQuery", product="Person"):
    """The one file of a level of the state 50."""
    return root / f"US_{product}_PL_PROD/{level}.parquet/{kind}/State=50/part-0.parquet"


def reasons(found):
    return {own.what: own.reason for own in found.unused}
