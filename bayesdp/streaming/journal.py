"""What a run writes while it goes on: where its chains are, so that one that was killed ends as it would have, and plausible tables.

The folder of a run has the file ``run.json`` (which run it is), files ``chain-N.npz``, one for each chain, or ``chains.npz`` for all
parts of all chains, replaced as a whole now and then, and plausible tables as they come, which go to a parquet file in the end.

What is read is not trusted: an array from a file gets to a compiled kernel only where it is one that the kernel could have written.
"""

from __future__ import annotations

import io
import json
import logging
import os
import secrets
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from bayesdp import _text
from bayesdp.fibers import Fiber
from bayesdp.frames import Frame, Label
from bayesdp.hierarchies.modes import entries_of
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure, Tree
from bayesdp.inference.runs.fingerprint import difference
from bayesdp.inference.runs.journal import locked
from bayesdp.storage.atomic import check_output, naming, replacing, sibling, write_text
from bayesdp.streaming.cells import CellSummary

type Arrays = Mapping[str, npt.NDArray[Any]]
type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_log = logging.getLogger(__name__)

SECONDS = 60.0
"""Between two states of a chain; more where writing one takes more than a thirtieth of it."""

_SHARE = 30.0
_FORM = 2
_HEAD = "run.json"
_LARGEST = 2**53
"""Counts are smaller, and histograms are not shifted by more than its logarithm."""

_MOST_VISITS = 2**10


class RunJournal:
    """The folder of one run, which no other process may write to meanwhile.

    It is made if there is none; the one that it is in must exist. Without `resume` a folder that has states is an error.
    """

    # `saved`: the run that has states there, if there is one. `resumed`: how often it was stopped and went on. `entropy`: its seed.

    def __init__(self, path: Any, *, resume: bool) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder {str(self.path.parent)!r} does not exist; create it first")
        head = self.path / _HEAD
        if self.path.exists() and (not self.path.is_dir() or (self._others() and not head.exists())):
            raise FileExistsError(
                f"{str(self.path)!r} is no journal of a run: name a folder that does not exist, or an empty one"
            )
        self.path.mkdir(exist_ok=True)
        self._lock: BinaryIO = locked(self.path / "lock")
        self._failed = threading.Event()
        self.saved: dict[str, Any] | None = None
        self.resumed, self.entropy, self._form = 0, secrets.randbits(128), _FORM
        try:
            for unfinished in self.path.glob(".*.tmp"):  # of a process that was killed
                unfinished.unlink()
            if any(self.path.glob("chain*.npz")):
                if not resume:
                    raise FileExistsError(
                        f"{str(self.path)!r} has a run that did not end, or whose result may not have been saved: resume=True goes on "
                        "with it; to begin anew, remove the folder"
                    )
                self._read_head(head)
        except BaseException:
            self.close()
            raise

    def _others(self) -> list[str]:
        return [own.name for own in self.path.iterdir() if own.name != "lock" and not own.name.startswith(f".{_HEAD}.")]

    def _read_head(self, file: Path) -> None:
        with readable(file):
            told = _text.loads(file.read_text(encoding="utf-8"), "it")
            _text.expect(told, dict, "it", {"version", "run", "entropy", "resumed"})
            self.saved = _text.expect(told["run"], dict, "the run")
            self.resumed, self.entropy = int(told["resumed"]) + 1, int(told["entropy"])
            require(self.entropy >= 0, "a seed must not be negative")
            self._form = told["version"]

    def begin(self, run: Mapping[str, Any]) -> None:
        """Note which run it is, by its `fingerprint`; an error if it is not the one whose states are there."""
        saved = run if self.saved is None else self.saved
        differs = difference(saved, run) or (
            "" if self._form == _FORM else f"it was written in the form {self._form!r}"
        )
        if differs:
            remedy = "Go on with the arguments of then, or remove the folder"
            lengths = {name: run[name] for name in ("draws", "tune") if name in run}
            if self._form == _FORM and not difference({**saved, **lengths}, run):
                remedy = (
                    "A run cannot be made longer or shorter, since what is kept of its cells is cut into batches by the number of "
                    "draws: go on with the numbers of then, or begin anew with these in another folder"
                )
            raise ValueError(f"{str(self.path)!r} is of another run: {differs}. {remedy}")
        told = {"version": _FORM, "run": run, "entropy": str(self.entropy), "resumed": self.resumed}
        write_text(self.path / _HEAD, json.dumps(told, indent=1), overwrite=True)

    def read(self, name: str) -> dict[str, npt.NDArray[Any]] | None:
        """The arrays of a file; None where there is none. Whoever uses them does so within `readable`."""
        file = self.path / name
        if not file.exists():
            return None
        with readable(file), file.open("rb") as opened:
            return arrays_of(opened)

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
        self._journal, self._name = journal, f"chain-{chain}.npz"
        self.file = journal.path / self._name
        self._wait, self._last = SECONDS, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time."""
        return not self._journal.failed and time.monotonic() - self._last >= self._wait

    def write(self, arrays: Arrays) -> None:
        """Write a state."""
        begun = time.monotonic()
        self._journal.write(self._name, arrays)
        self._last = time.monotonic()
        self._wait = max(SECONDS, _SHARE * (self._last - begun))

    def read(self) -> dict[str, npt.NDArray[Any]] | None:
        """The last state."""
        return self._journal.read(self._name)


@contextmanager
def readable(file: object) -> Iterator[None]:
    """Whatever is wrong with what a file holds is a ValueError that names it."""
    try:
        yield
    except Exception as error:  # of damaged archives and JSON, and of values that are none of ours, nearly any
        raise ValueError(
            f"{str(file)!r} is damaged ({error}): nothing can go on from it; remove it to draw its part again"
        ) from None


def arrays_of(file: BinaryIO) -> dict[str, npt.NDArray[Any]]:
    """The arrays of an npz file, which are stored as they are, so that they take no more memory than the file; no pickles."""
    found: dict[str, npt.NDArray[Any]] = {}
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        stored = all(own.compress_type == zipfile.ZIP_STORED for own in entries)
        require(stored and sum(own.file_size for own in entries) <= size, "it would become larger in memory")
        for own in entries:
            with archive.open(own) as stream:
                found[own.filename.removesuffix(".npy")] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


def array_bytes(arrays: Arrays) -> bytes:
    """An npz file of arrays, for `arrays_of`."""
    stream = io.BytesIO()
    np.savez(stream, **dict[str, Any](arrays))
    return stream.getvalue()


def require(holds: Any, what: str) -> None:
    """ValueError unless something holds of what was read."""
    if not holds:
        raise ValueError(what)


def group(arrays: Arrays, prefix: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays whose names begin so, without that."""
    return {name.removeprefix(prefix): own for name, own in arrays.items() if name.startswith(prefix)}


def check_like(found: Arrays, live: Arrays) -> None:
    """Check that arrays are those of a live state: the same names, shapes and types, and real numbers finite."""
    require(set(found) == set(live), f"it has {sorted(found)}, not {sorted(live)}")
    for name, own in live.items():
        array = found[name]
        shape, dtype = np.shape(own), np.asarray(own).dtype
        same = (array.shape, array.dtype) == (shape, dtype)
        require(same, f"{name} is of shape {array.shape} and type {array.dtype}, not {shape}, {dtype}")
        require(array.dtype.kind != "f" or np.isfinite(array).all(), f"{name} is not finite")


def check_counts(counts: Ints, fiber: Fiber, structure: Structure) -> None:
    """Check that a table, leaves by cells, is one of whole numbers with the exact answers."""
    require(counts.shape == structure.free.shape and counts.dtype == np.int64, "counts are of another shape or type")
    table = np.asarray(structure.in_frame(counts)).reshape(fiber.frame.shape)
    require(fiber.contains(table), "counts are no table with the exact answers")


def check_donors(saved: Arrays, structure: Structure) -> None:
    """Check which cells of a leaf others are moved against, and how often cells are visited."""
    starts, cells, visits = saved["donor_start"], saved["donor_cell"], saved["visits"]
    groups, size = int(structure.pair_class.max()) + 2, len(structure.free)
    typed = all(own.dtype == np.int64 for own in (starts, cells, visits))
    require(typed and starts.shape == (size, groups) and cells.ndim == 1, "donors are of another shape or type")
    require(visits.shape == (int(structure.free.sum()),), "visits are of another shape")
    require((visits >= 1).all() and (visits <= _MOST_VISITS).all(), "visits are too few or too many")
    whole = starts[0, 0] == 0 and starts[-1, -1] == len(cells) and (starts[1:, 0] == starts[:-1, -1]).all()
    require(whole and (np.diff(starts, axis=1) >= 0).all(), "donors do not follow one another")
    require(((cells >= 0) & (cells < structure.free.shape[1])).all(), "donors are no cells")
    leaf, cell, group = entries_of((starts, cells))
    fits = structure.free[leaf, cell] & (structure.pair_class[cell] == group % (groups - 1))
    require(fits.all(), "donors are cells that cannot move, or of other sums")


def check_hyper(hyper: Arrays, prior: CellPrior, structure: Structure, counts: Ints) -> None:
    """Check hyperparameters of a prior: those that it has, finite, with weights and shapes that are numbers."""
    live, found = (
        {name: np.asarray(own, dtype=np.float64) for name, own in each.items()}
        for each in (prior.start(structure, counts), hyper)
    )
    check_like(found, live)
    for name, own in hyper.items():
        require(not name.endswith("variance") or (own > 0.0).all(), f"{name} is not positive")
    with np.errstate(all="ignore"):
        theta, alpha = prior.weights(structure, dict(hyper))
    require(not np.isnan(theta).any(), "log weights are no numbers")
    require((np.isfinite(alpha) & (alpha > 0.0)).all(), "shapes are impossible")


def check_kept(found: Arrays, live: CellSummary, draws: int) -> None:
    """Check what is kept of the cells after so many draws against what would be kept of none; without `where`."""
    check_like(found, {name: own for name, own in live._asdict().items() if name != "where"})
    low, shift = found["grids"].T
    require((found["first"] >= 0).all() and (found["first"] < _LARGEST).all(), "first counts are none")
    require(((low >= 0) & (low < _LARGEST) & (shift >= 0) & (shift <= 53)).all(), "histograms begin nowhere")
    counted = found["bins"].sum(axis=1, dtype=np.int64) == draws
    require(
        counted.all() and (found["small"].sum(axis=1, dtype=np.int64) <= draws).all(), "histograms have other draws"
    )
    require((found["squares"] >= 0.0).all(), "squares are negative")


class KeptTables:
    """Plausible tables in a journal until the end of the run: a parquet file cannot be gone on with."""

    def __init__(self, journal: RunJournal, tables: TableWriter) -> None:
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
        for chain, draws in enumerate(self._tables.numbers):
            for draw in draws.tolist():
                name, counts = f"table-{chain}-{draw}.npz", np.zeros(shape, dtype=np.int64)
                kept = self._journal.read(name) or {}
                with readable(self._journal.path / name):
                    require((kept["place"] >= 0).all() and (kept["count"] > 0).all(), "counts are negative, or nowhere")
                    counts.reshape(-1)[kept["place"]] = kept["count"]
                self._tables.add(chain, draw, counts)


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
    """A parquet file of tables, with the columns that `bdp.fit_hierarchy` states: under its name complete, or not there at all.

    An error of the disk while a run goes on is kept, so that the run goes on, and raised by `finish`.
    """

    # `tree`: the tables come as its leaves by cells. `numbers`: for each chain, the draws that will come, see `thinned`. `about`: text
    # that is written with the tables: seed, versions, prior.

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
            self.close()

    def close(self) -> None:
        """Remove what was written, if it has not got its name."""
        with suppress(Exception):  # on a full disk closing fails too, and there is nothing to lose
            self._file.close()
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            self._temporary.unlink()


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
