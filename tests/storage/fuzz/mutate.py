"""Changing a file or a folder, by whatever suits its kind."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from tests.storage.fuzz.mutate_hdf5 import mutate_hdf5
from tests.storage.fuzz.mutate_json import mutate_json
from tests.storage.fuzz.mutate_parquet import mutate_parquet
from tests.storage.fuzz.mutate_text import mutate_bytes, mutate_csv, mutate_journal, one


def mutate(rng: np.random.Generator, path: Path, shelf: Path) -> str:
    """Change a file or a folder in place, once, twice or three times."""
    done: list[str] = []
    structured = rng.random() < 0.7
    for i in range(one(rng, [1, 1, 1, 2, 3])):
        done.append(
            _folder(rng, path, shelf, structured) if path.is_dir() else _file(rng, path, shelf, structured and i < 2)
        )
        structured = structured and "bytes" not in done[-1]  # what was damaged cannot be changed by its structure
    return "; ".join(done)


def _file(rng: np.random.Generator, path: Path, shelf: Path, structured: bool) -> str:
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
    elif form == ".jsonl":
        lines = data.decode().split("\n")
        at = int(rng.integers(0, len(lines) - 1))
        lines[at], how = mutate_json(rng, lines[at])
        new = "\n".join(lines).encode("utf-8", "surrogatepass")
    elif form == ".json":
        text, how = mutate_json(rng, data.decode())
        new = text.encode("utf-8", "surrogatepass")
    else:
        others = sorted(own for own in shelf.rglob(f"*{path.suffix}") if own.is_file())
        new, how = mutate_bytes(rng, data, one(rng, others).read_bytes())
    path.write_bytes(new)
    return how


def _folder(rng: np.random.Generator, folder: Path, shelf: Path, structured: bool) -> str:
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
    if kind == "a folder":
        file.mkdir()
    elif kind == "a pipe":
        os.mkfifo(file)
    elif kind in links:
        file.symlink_to(links[kind])
    return f"folder: {file.name}, {kind}"
