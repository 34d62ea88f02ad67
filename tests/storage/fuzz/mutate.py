"""Changing a file or a folder, by whatever suits its kind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tests.storage.fuzz.mutate_bytes import mutate_bytes
from tests.storage.fuzz.mutate_hdf5 import mutate_hdf5
from tests.storage.fuzz.mutate_json import mutate_json
from tests.storage.fuzz.mutate_lines import mutate_csv, mutate_journal
from tests.storage.fuzz.mutate_parquet import mutate_parquet

_FORMS = {".nc": "hdf5", ".parquet": "parquet", ".csv": "csv", ".txt": "csv", ".jsonl": "journal", ".json": "json"}


def mutate(rng: np.random.Generator, path: Path, shelf: Path) -> str:
    """Change a file or a folder in place, once, twice or three times."""
    done = []
    structured = rng.random() < 0.7
    for i in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if path.is_dir():
            done.append(_folder(rng, path, shelf, structured))
        else:
            done.append(_file(rng, path, shelf, structured and i < 2))
        structured = structured and "bytes" not in done[-1]  # what was damaged cannot be changed by its structure
    return "; ".join(done)


def _file(rng: np.random.Generator, path: Path, shelf: Path, structured: bool) -> str:
    form = _FORMS.get(path.suffix, "") if structured else ""
    if form == "hdf5":
        return mutate_hdf5(rng, path)
    if form == "parquet":
        return mutate_parquet(rng, path)
    data = path.read_bytes()
    if form == "csv":
        new, how = mutate_csv(rng, data)
    elif form == "journal":
        new, how = mutate_journal(rng, data)
    elif form == "json":
        text, how = mutate_json(rng, data.decode())
        new = text.encode("utf-8", "surrogatepass")
    else:
        others = sorted(own for own in shelf.rglob(f"*{path.suffix}") if own.is_file())
        new, how = mutate_bytes(rng, data, others[int(rng.integers(0, len(others)))].read_bytes())
    path.write_bytes(new)
    return how


def _folder(rng: np.random.Generator, folder: Path, shelf: Path, structured: bool) -> str:
    """A file of a folder is changed, goes, or becomes something that is no file."""
    files = sorted(own for own in folder.iterdir() if own.is_file() and not own.is_symlink())
    described = [own for own in files if own.suffix in (".json", ".jsonl")]
    if not files:
        return "folder: empty"
    chosen = described if described and rng.random() < 0.5 else files
    file = chosen[int(rng.integers(0, len(chosen)))]
    if rng.random() < 0.9:
        return f"{file.name}: {_file(rng, file, shelf, structured)}"
    kind = int(rng.integers(0, 7))
    if kind < 6:
        file.unlink()
    if kind == 1:
        file.mkdir()
    elif kind == 2:
        os.mkfifo(file)
    elif kind == 3:
        file.symlink_to(Path("/dev/zero"))
    elif kind == 4:
        file.symlink_to(Path("..") / ".." / "elsewhere" / "canary.csv")
    elif kind == 5:
        file.symlink_to(file.name)
    elif kind == 6:
        (folder / "notes.txt").write_text("x")
    return f"folder: {file.name}, {('gone', 'a folder', 'a pipe', 'a link to zeros', 'a link', 'a circle', 'one more')[kind]}"
