"""Changing a file or a folder, by whatever suits its kind."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.storage.fuzz.mutate_hdf5 import mutate_hdf5
from tests.storage.fuzz.mutate_text import mutate_bytes, mutate_csv, mutate_journal, mutate_json, one, size


def mutate(rng, path, shelf):
    done = []
    structured = rng.random() < 0.7
    for i in range(one(rng, [1, 1, 1, 2, 3])):
        change = _folder if path.is_dir() else _file
        done.append(change(rng, path, shelf, structured and (i < 2 or path.is_dir())))
        structured = structured and "bytes" not in done[-1]  # what was damaged cannot be changed by its structure
    return "; ".join(done)


def _file(rng, path, shelf, structured):
    form = path.suffix if structured else ""
    if form == ".nc":
        return mutate_hdf5(rng, path)
    if form == ".parquet":
        return mutate_parquet(rng, path)
    data = path.read_bytes()
    if form in (".csv", ".txt"):
        new, how = mutate_csv(rng, data)
    elif form == ".jsonl" and rng.random() < 0.7:
        new, how = mutate_journal(rng, data)
    elif form in (".json", ".jsonl"):
        lines = data.decode().split("\n") if form == ".jsonl" else [data.decode(), ""]
        at = int(rng.integers(0, len(lines) - 1))
        lines[at], how = mutate_json(rng, lines[at])
        new = "\n".join(lines).encode("utf-8", "surrogatepass")
    else:
        others = sorted(own for own in shelf.rglob(f"*{path.suffix}") if own.is_file())
        new, how = mutate_bytes(rng, data, one(rng, others).read_bytes())
    path.write_bytes(new)
    return how


def _folder(rng, folder, shelf, structured):
    """A file of a folder is changed, goes, or becomes something that is no file."""
    files = sorted(own for own in folder.iterdir() if own.is_file() and not own.is_symlink())
    if not files:
        return "folder: empty"
    described = [own for own in files if own.suffix in (".json", ".jsonl")]
    file = one(rng, described if described and rng.random() < 0.5 else files)
    if rng.random() < 0.9:
        return f"{file.name}: {_file(rng, file, shelf, structured)}"
    links = {"a link to zeros": "/dev/zero", "a link": "../../elsewhere/canary.csv", "a circle": file.name}
    kind = one(rng, ["gone", "a folder", "a pipe", *links, "one more"])
    if kind == "one more":
        (folder / "notes.txt").write_text("x")
        return f"folder: {file.name}, {kind}"
    file.unlink()
    if kind in ("a folder", "a pipe"):
        (os.mkdir if kind == "a folder" else os.mkfifo)(file)
    elif kind in links:
        file.symlink_to(links[kind])
    return f"folder: {file.name}, {kind}"


def write_measurements(path, geocode, rows, numbers):
    place, texts = pa.array(np.zeros(rows, "i4")), {"geocode": geocode, "query_name": "detailed_dpq", "h1": "detailed"}
    data = {name: pa.DictionaryArray.from_arrays(place, [text]) for name, text in texts.items()}
    ends = pa.array(np.arange(rows + 1, dtype=np.int32) * numbers)
    data["value"] = pa.ListArray.from_arrays(ends, pa.array(np.zeros(rows * numbers, dtype=np.int8)))
    data["variance"] = pa.array(np.full(rows, 25.0, dtype=np.float32))
    pq.write_table(pa.table(data), path, compression="zstd", write_statistics=False, row_group_size=10**8)


def mutate_parquet(rng, path):
    """Other columns, long texts, long lists, very many rows, all of it packed to almost nothing."""
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
