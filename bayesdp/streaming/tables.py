"""Plausible tables: draws of the whole table, evenly spaced over those of all chains, in a parquet file.

While chains draw, each is a file of its own, which another process can go on from: a parquet file cannot be gone on with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._arrays import Ints
from bayesdp.frames import Frame, Label
from bayesdp.hierarchies.structure import Tree
from bayesdp.storage.atomic import check_output, replacing
from bayesdp.storage.journal import read_arrays, readable, require


def thinned(tables: int, chains: int, draws: int) -> list[Ints]:
    """Which draws of each chain are written: evenly spaced, the last one among them, as many in each chain as can be."""
    share = [tables // chains + (chain < tables % chains) for chain in range(chains)]
    return [(np.arange(1, own + 1) * draws) // max(own, 1) - 1 for own in share]


def table_name(chain: int, draw: int) -> str:
    """The name of the file of a draw."""
    return f"table-{chain}-{draw}.npz"


def entries_of_table(counts: Ints) -> dict[str, Ints]:
    """The cells of a table, leaves by cells, that are not 0, for its file."""
    flat = counts.reshape(-1)
    place = np.flatnonzero(flat)
    return {"place": place, "count": flat[place]}


def check_tables(path: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """Check that tables can be written to a path, before any long work starts."""
    _pyarrow()
    target = check_output(path, overwrite=overwrite)
    if target.is_dir():
        raise IsADirectoryError(f"{str(target)!r} is a folder; name a file")
    return target


def write_tables(
    path: Path, tree: Tree, numbers: Sequence[Ints], folder: Path, about: Mapping[str, str], *, overwrite: bool
) -> None:
    """Write the parquet file, with the columns that `bdp.fit_hierarchy` states: under its name complete, or not there at all."""
    # `tree`: the tables come as its leaves by cells. `numbers`: the draws of each chain, see `thinned`, whose files are in `folder`.
    arrow, parquet = _pyarrow()
    columns = _Columns(arrow, tree.frame, about)
    cells = np.asarray(tree.leaves_by_cells(np.arange(tree.frame.size))).reshape(-1)
    places = [(chain, draw) for chain, draws in enumerate(numbers) for draw in draws.tolist()]
    missing = [own for own in places if not (folder / table_name(*own)).exists()]
    if missing:
        raise OSError(
            f"{len(missing)} of {len(places)} tables could not be written to {str(folder)!r} as they were drawn"
        )
    with (
        replacing(path, overwrite=overwrite) as temporary,
        parquet.ParquetWriter(temporary, columns.schema, compression="zstd") as writer,
    ):
        for number, (chain, draw) in enumerate(places):
            file = folder / table_name(chain, draw)
            kept = read_arrays(file)
            with readable(file):
                place, count = kept["place"], kept["count"]
                require((place >= 0).all() and (count > 0).all(), "counts are negative, or nowhere")
                own = cells[place]
            order = np.argsort(own)
            writer.write_batch(columns.batch(number, chain, draw, own[order], count[order]))


class _Columns:
    """Labels of cells as columns that hold each label once; `about` is text for the schema."""

    def __init__(self, arrow: Any, frame: Frame, about: Mapping[str, str]) -> None:
        self._arrow, self._shape = arrow, frame.shape
        self._labels: list[tuple[str, int, Any, npt.NDArray[np.int32]]] = []
        for axis, (dim, labels) in enumerate(zip(frame.dims, frame.labels, strict=True)):
            self._labels.append((dim, axis, _values(arrow, labels), np.arange(len(labels), dtype=np.int32)))
        for name, dim, labels in frame.groups:
            distinct = list(dict.fromkeys(labels))
            place = {label: i for i, label in enumerate(distinct)}
            of_label = np.array([place[own] for own in labels], dtype=np.int32)
            self._labels.append((name, frame.dims.index(dim), _values(arrow, distinct), of_label))
        fields = [(name, arrow.int32()) for name in ("table", "chain", "draw")]
        fields += [(name, arrow.dictionary(arrow.int32(), values.type)) for name, _, values, _ in self._labels]
        metadata = {f"bayesdp_{name}": value for name, value in about.items()}
        self.schema = arrow.schema([*fields, ("count", arrow.int64())], metadata=metadata)

    def batch(self, number: int, chain: int, draw: int, cells: Ints, counts: Ints) -> Any:
        arrow, index = self._arrow, np.unravel_index(cells, self._shape)
        arrays = [arrow.array(np.full(len(cells), own, dtype=np.int32)) for own in (number, chain, draw)]
        for _, axis, values, codes in self._labels:
            arrays.append(arrow.DictionaryArray.from_arrays(arrow.array(codes[index[axis]]), values))
        return arrow.RecordBatch.from_arrays([*arrays, arrow.array(counts)], schema=self.schema)


def _values(arrow: Any, labels: Any) -> Any:
    """Labels as a column: whole numbers or real ones where all of them are, else text."""
    kinds = {type(label) for label in labels}
    own: list[Label] = list(labels) if len(kinds) == 1 else [str(label) for label in labels]
    return arrow.array(own)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(
            "tables are written to parquet by pyarrow, which is not installed: pip install 'bayesdp[census]', or leave out tables_path"
        ) from error
