"""Parquet files of noisy measurements: other columns, long texts, long lists, very many rows, all of it packed to almost nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


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
    kind = int(rng.integers(0, 6))
    if kind == 0:
        rows = int(2 ** rng.uniform(1, 22))
        write_measurements(path, "05010001", rows, 2)
        return f"parquet: {rows} equal rows"
    if kind == 1:
        length, rows = int(2 ** rng.uniform(4, 23)), int(2 ** rng.uniform(1, 14))
        write_measurements(path, "050" + "1" * length, rows, 2)
        return f"parquet: a geocode of {length} digits in {rows} rows"
    if kind == 2:
        numbers = int(2 ** rng.uniform(1, 25))
        write_measurements(path, "05010001", 1, numbers)
        return f"parquet: a value of {numbers} zeros"
    table = pq.read_table(path)
    at = int(rng.integers(0, table.num_columns))
    name = table.column_names[at]
    if kind == 3:
        changed = table.drop_columns([name])
    elif kind == 4:
        changed = table.set_column(at, name, pa.array([None] * table.num_rows, table[name].type))
    else:
        odd: list[object] = ["x", "\u202e", 7, -1.5, float("nan"), [1, 2, 3], [[1]], 2**62, True]
        changed = table.set_column(at, name, pa.array([odd[int(rng.integers(0, len(odd)))]] * table.num_rows))
    pq.write_table(changed, path)
    return f"parquet: {name} {('gone', 'null', 'another')[kind - 3]}"
