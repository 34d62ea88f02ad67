"""Where the chains of a run are, in a folder, so that a run that was killed goes on and ends as it would have.

The folder has the file ``run.json`` (which run it is of), a file ``chain-N.npz`` for each chain, replaced as a whole now and then, and
plausible tables as they come.

Plausible tables: whole tables drawn from the posterior, written to a parquet file while a run goes on.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bayesdp import _text
from bayesdp.frames import Frame, Label
from bayesdp.hierarchies.tree import Tree
from bayesdp.inference.runs.fingerprint import difference
from bayesdp.inference.runs.journal import locked
from bayesdp.storage.atomic import check_output, naming, replacing, sibling, write_text

__all__ = ["RunJournal"]

type Arrays = Mapping[str, npt.NDArray[Any]]
type Ints = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)

SECONDS = 60.0
"""Between two states of a chain; more where writing one takes more than a thirtieth of it."""

_SHARE = 30.0
_VERSION = 1


class RunJournal:
    """The folder of one run."""

    # BlockingIOError if another process is writing to it. `path`: a folder, made if there is none; the one that it is in must
    # exist. `run`: its `fingerprint`. `resume`: go on with what is there. Without it, a folder that has the states of a run is an
    # error. `resumed`: how often the run was stopped and went on. `entropy`: the seed of a run that was given none.

    def __init__(self, path: Any, run: Mapping[str, Any], *, resume: bool) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {str(self.path.parent)!r} does not exist; create it first")
        if self.path.exists() and (not self.path.is_dir() or (_others(self.path) and not self._head.exists())):
            raise FileExistsError(
                f"{str(self.path)!r} is no journal of a run: name a folder that does not exist, or an empty one"
            )
        self.path.mkdir(exist_ok=True)
        self._lock: BinaryIO = locked(self.path / "lock")
        self._failed = threading.Event()
        try:
            self._begin(run, resume=resume)
        except BaseException:
            self.close()
            raise

    @property
    def _head(self) -> Path:
        return self.path / "run.json"

    def _begin(self, run: Mapping[str, Any], *, resume: bool) -> None:
        self.resumed, self.entropy = 0, secrets.randbits(128)
        states = sorted(self.path.glob("chain-*.npz"))
        if states and not resume:
            raise FileExistsError(
                f"{str(self.path)!r} has a run that did not end, or whose result may not have been saved: resume=True goes on with "
                "it; to begin anew, remove the folder"
            )
        if states:
            head = _text.loads(self._head.read_text(encoding="utf-8"), str(self._head))
            differs = difference(head["run"], run)
            if head.get("version") != _VERSION or differs:
                what = differs or f"it was written in the form {head.get('version')!r}"
                remedy = "Go on with the arguments of then, or remove the folder"
                lengths = {name: run[name] for name in ("draws", "tune") if name in run}
                if differs and not difference(head["run"] | lengths, run):
                    remedy = (
                        "A run cannot be made longer or shorter, since what is kept of its cells is cut into batches by the number of "
                        "draws: go on with the numbers of then, or begin anew with these in another folder"
                    )
                raise ValueError(f"{str(self.path)!r} is of another run: {what}. {remedy}")
            self.resumed, self.entropy = int(head["resumed"]) + 1, int(head["entropy"])
        told = {"version": _VERSION, "run": run, "entropy": str(self.entropy), "resumed": self.resumed}
        write_text(self._head, json.dumps(told, indent=1), overwrite=True)

    def read(self, chain: int) -> dict[str, npt.NDArray[Any]] | None:
        """The last state of a chain; None where there is none."""
        file = self.path / f"chain-{chain}.npz"
        return _read(file) if file.exists() else None

    def writer(self, chain: int) -> Writer:
        """Writes the states of one chain."""
        return Writer(self, chain)

    def write(self, name: str, arrays: Arrays) -> None:
        """Write a file as a whole. An error of the disk is told once; the run goes on, and nothing is written from then on."""
        if self._failed.is_set():
            return
        try:
            with replacing(self.path / name, overwrite=True) as temporary, temporary.open("wb") as file:
                np.savez(file, **dict[str, Any](arrays))
        except OSError as error:
            if not self._failed.is_set():
                self._failed.set()
                _log.warning(
                    "%s: %s. Sampling goes on; it cannot be resumed from later than what was written before",
                    self.path,
                    error.strerror,
                )

    @property
    def failed(self) -> bool:
        """Whether something could not be written."""
        return self._failed.is_set()

    def close(self) -> None:
        """Let other processes write to the folder."""
        self._lock.close()


class Writer:
    """Writes the states of one chain now and then."""

    def __init__(self, journal: RunJournal, chain: int) -> None:
        self._journal, self._chain = journal, chain
        self._wait, self._last = SECONDS, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time."""
        return not self._journal.failed and time.monotonic() - self._last >= self._wait

    def write(self, arrays: Arrays) -> None:
        """Write a state."""
        begun = time.monotonic()
        self._journal.write(f"chain-{self._chain}.npz", arrays)
        self._last = time.monotonic()
        self._wait = max(SECONDS, _SHARE * (self._last - begun))

    def read(self) -> dict[str, npt.NDArray[Any]] | None:
        """The last state."""
        return self._journal.read(self._chain)


class KeptTables:
    """Plausible tables in a journal until the end of the run: a parquet file cannot be gone on with."""

    # `tables`: a `bayesdp.streaming.journal.TableWriter`, which gets them in the end.

    def __init__(self, journal: RunJournal, tables: Any) -> None:
        self._journal, self._tables = journal, tables

    def wanted(self, chain: int, draw: int) -> bool:
        """Whether this draw is one of those that are written."""
        return bool(self._tables.wanted(chain, draw)) and not self._journal.failed

    def add(self, chain: int, draw: int, counts: Ints) -> None:
        """Keep a draw, leaves by cells."""
        flat = counts.reshape(-1)
        place = np.flatnonzero(flat)
        self._journal.write(f"table-{chain}-{draw}.npz", {"place": place, "count": flat[place]})

    def give(self, shape: tuple[int, ...]) -> None:
        """Give all tables to the parquet file."""
        if self._journal.failed:
            raise OSError(f"{str(self._journal.path)!r}: tables could not be written there")
        for chain, draw in self._all():
            kept = _read(self._journal.path / f"table-{chain}-{draw}.npz")
            counts = np.zeros(shape, dtype=np.int64)
            counts.reshape(-1)[kept["place"]] = kept["count"]
            self._tables.add(chain, draw, counts)

    def _all(self) -> Iterator[tuple[int, int]]:
        for chain, draws in enumerate(self._tables.numbers):
            for draw in draws.tolist():
                yield chain, draw


def _others(folder: Path) -> list[str]:
    return [own.name for own in folder.iterdir() if own.name != "lock"]


def _read(file: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        with np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{str(file)!r} is damaged ({error}): nothing can go on from it; remove it to draw its part again"
        ) from None


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
