"""Parquet files of noisy measurements: other columns, long texts, long lists, very many rows, all of it packed to almost nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.storage.fuzz.mutate_text import one, size


def write_measurements(path: Path, geocode: str, rows: int, numbers: int) -> None:
    """So many rows of one geocode, each with so many zeros."""
    place = pa.array(np.zeros(rows, dtype=np.int32))
    data: dict[str, pa.Array] = {
        name: pa.DictionaryArray.from_arrays(place, [text])
        for name, text in (("geocode", geocode), ("query_name", "detailed_dpq"), ("h1", "detailed"))
    }
    ends = pa.array(np.arange(rows + 1, dtype=np.int32) * numbers)
    data["value"] = pa.ListArray.from_arrays(ends, pa.array(np.zeros(rows * numbers, dtype=np.int8)))
    data["variance"] = pa.array(np.full(rows, 25.0, dtype=np.float32))
    pq.write_table(pa.table(data), path, compression="zstd", write_statistics=False, row_group_size=10**8)


def mutate_parquet(rng: np.random.Generator, path: Path) -> str:
    """Change a file; what was done."""
    kind = one(rng, ["rows", "geocode", "value", "gone", "null", "another"])
    if kind in ("rows", "geocode", "value"):
        digits = size(rng, 4, 23) if kind == "geocode" else 5
        rows = {"rows": size(rng, 1, 22), "geocode": size(rng, 1, 14), "value": 1}[kind]
        numbers = size(rng, 1, 25) if kind == "value" else 2
        write_measurements(path, "050" + "1" * digits, rows, numbers)
        return f"parquet: {rows} equal rows, a geocode of {digits} digits, {numbers} zeros"
    table = pq.read_table(path)
    at = int(rng.integers(0, table.num_columns))
    name = table.column_names[at]
    if kind == "gone":
        changed = table.drop_columns([name])
    elif kind == "null":
        changed = table.set_column(at, name, pa.array([None] * table.num_rows, table[name].type))
    else:
        odd = one(rng, ["x", "\u202e", 7, -1.5, float("nan"), [1, 2, 3], [[1]], 2**62, True])
        changed = table.set_column(at, name, pa.array([odd] * table.num_rows))
    pq.write_table(changed, path)
    return f"parquet: {name} {kind}"
