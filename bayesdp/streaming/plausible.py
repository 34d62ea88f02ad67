"""Plausible tables: whole tables drawn from the posterior, written to a parquet file while a run goes on."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.frames import Frame, Label
from bayesdp.hierarchies.structure import Tree
from bayesdp.storage.atomic import check_output, naming, replacing, sibling

type Ints = npt.NDArray[np.int64]


def thinned(tables: int, chains: int, draws: int) -> list[Ints]:
    """Which draws of each chain are written: evenly spaced, the last one among them, as many in each chain as can be.

    Examples
    --------
    >>> [own.tolist() for own in thinned(5, 2, 10)]
    [[2, 5, 9], [4, 9]]
    """
    share = [tables // chains + (chain < tables % chains) for chain in range(chains)]
    return [(np.arange(1, own + 1) * draws) // max(own, 1) - 1 for own in share]


class TableWriter:
    """A parquet file of tables: a row for every cell of a table that is not 0.

    Its columns are ``table`` (numbered from 0), ``chain``, ``draw``, one for each dimension of the table and for each group
    label, with the labels, and ``count``. Cells without a row are 0. Under its name the file is complete or not there at all.

    Parameters
    ----------
    path : path
    tree : Tree
        The tables come as its leaves by cells.
    numbers : list of int64 arrays
        For each chain, the draws that will come, see `thinned`.
    about : mapping
        Text that is written with the tables: seed, versions, prior.
    overwrite : bool
        Whether an existing file may be replaced.


    Notes
    -----
    An error of the disk while a run goes on is kept, so that the run goes on, and raised by `finish`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tree: Tree,
        numbers: list[Ints],
        about: Mapping[str, str],
        *,
        overwrite: bool,
    ) -> None:
        arrow, parquet = _pyarrow()
        self._target = check_output(path, overwrite=overwrite)
        if self._target.is_dir():
            raise IsADirectoryError(f"{str(self._target)!r} is a folder; name a file")
        self._overwrite = overwrite
        self._tree = tree
        self.numbers = numbers
        self._first = np.concatenate([[0], np.cumsum([len(own) for own in numbers])])
        self._number = [{int(draw): i for i, draw in enumerate(own)} for own in numbers]
        self._columns = _Columns(arrow, tree.frame)
        # Where each place of leaves by cells is in the frame.
        self._place = np.asarray(tree.leaves_by_cells(np.arange(tree.frame.size))).reshape(-1)
        text = {f"bayesdp_{name}": value for name, value in about.items()}
        self._lock = threading.Lock()
        self._temporary = sibling(self._target)
        self.error: OSError | None = None
        self.written = 0
        try:
            with naming(self._target):
                self._file = parquet.ParquetWriter(self._temporary, self._columns.schema(text), compression="zstd")
        except BaseException:
            self._remove()
            raise

    def wanted(self, chain: int, draw: int) -> bool:
        """Whether this draw is one of those that are written."""
        return draw in self._number[chain]

    def add(self, chain: int, draw: int, counts: Ints) -> None:
        """Write a draw, leaves by cells; chains may do so at the same time."""
        occupied = np.flatnonzero(counts.reshape(-1))
        cells = self._place[occupied]
        order = np.argsort(cells)
        number = int(self._first[chain]) + self._number[chain][draw]
        batch = self._columns.batch(number, chain, draw, cells[order], counts.reshape(-1)[occupied[order]])
        with self._lock:
            if self.error is not None:
                return
            try:
                self._file.write_batch(batch)
                self.written += 1
            except OSError as error:
                self.error = error

    def finish(self) -> None:
        """Complete the file and give it its name."""
        try:
            with replacing(self._target, overwrite=self._overwrite) as temporary:
                if self.error is not None:
                    raise self.error
                self._file.close()
                os.replace(self._temporary, temporary)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Remove what was written, if it has not got its name."""
        with suppress(Exception):  # on a full disk closing fails too, and there is nothing to lose
            self._file.close()
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            Path(self._temporary).unlink()


class _Columns:
    """Labels of cells as columns that hold each label once."""

    def __init__(self, arrow: Any, frame: Frame) -> None:
        self._arrow, self._frame = arrow, frame
        self._labels: list[tuple[str, int, Any, npt.NDArray[np.int32]]] = []
        for axis, (dim, labels) in enumerate(zip(frame.dims, frame.labels, strict=True)):
            self._labels.append((dim, axis, _values(arrow, labels), np.arange(len(labels), dtype=np.int32)))
        for name, dim, labels in frame.groups:
            distinct = list(dict.fromkeys(labels))
            place = {label: i for i, label in enumerate(distinct)}
            of_label = np.array([place[own] for own in labels], dtype=np.int32)
            self._labels.append((name, frame.dims.index(dim), _values(arrow, distinct), of_label))

    def schema(self, text: Mapping[str, str]) -> Any:
        arrow = self._arrow
        fields = [(name, arrow.int32()) for name in ("table", "chain", "draw")]
        fields += [(name, arrow.dictionary(arrow.int32(), values.type)) for name, _, values, _ in self._labels]
        return arrow.schema([*fields, ("count", arrow.int64())], metadata=dict(text))

    def batch(self, number: int, chain: int, draw: int, cells: Ints, counts: Ints) -> Any:
        arrow = self._arrow
        index = np.unravel_index(cells, self._frame.shape)
        columns = {
            name: arrow.array(np.full(len(cells), own, dtype=np.int32))
            for name, own in (("table", number), ("chain", chain), ("draw", draw))
        }
        for name, axis, values, codes in self._labels:
            columns[name] = arrow.DictionaryArray.from_arrays(arrow.array(codes[index[axis]]), values)
        columns["count"] = arrow.array(counts)
        return arrow.RecordBatch.from_arrays(list(columns.values()), schema=self.schema({}))


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
