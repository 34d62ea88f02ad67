"""Posteriors in files: small, and the same numbers again.

What is written to a disk is plain bytes of a netCDF-4 file in memory. HDF5 does not survive a disk that fills up: a file whose last
blocks cannot be written cannot be closed either, and the library tries once more when the process ends, which is a
segmentation fault. Nothing of the kind can happen to a file in memory, and the draws are still there when the bytes cannot be written.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import xarray as xr

from bayesdp.storage.atomic import check_output, write_bytes
from bayesdp.storage.guarded import Limits

_PIECE = 1 << 20
"""Bytes of a piece: small beside what the imports take, and large enough that pieces cost no time."""


class _Image(io.RawIOBase):
    """A file in memory, in pieces, that never fails while HDF5 writes to it, and tells afterwards whether memory was short."""

    # An error from within would leave HDF5 with a file that it cannot close; see above. What is in an image that is short does not
    # matter: it is never written to a disk. (`io.BytesIO` is unusable after an allocation that failed: Python crashes.)

    def __init__(self) -> None:
        self.pieces: list[bytearray] = []
        self.size = self.at = 0
        self.short = False

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def truncate(self, size: int | None = None) -> int:
        """Set the length; what is between the end and a longer length is zero."""
        self.size = self.at if size is None else size
        self._reach(self.size)
        return self.size

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer from where we are; as much as there is."""
        wanted = memoryview(buffer).cast("B")
        done = 0
        for piece in self._pieces(self.at, min(self.at + len(wanted), self.size)):
            wanted[done : done + len(piece)] = piece
            done += len(piece)
        self.at += done
        return done

    def write(self, data: Any) -> int:
        given = memoryview(data).cast("B")
        if self._reach(self.at + len(given)):
            done = 0
            for piece in self._pieces(self.at, self.at + len(given)):
                piece[:] = given[done : done + len(piece)]
                done += len(piece)
        self.at += len(given)
        self.size = max(self.size, self.at)
        return len(given)

    def close(self) -> None:
        """Left open: a writer that fails closes what it was given, and HDF5 comes back to it later."""

    def content(self) -> list[memoryview]:
        """The bytes of the file, in pieces."""
        return list(self._pieces(0, self.size))

    def _reach(self, end: int) -> bool:
        """Allocate pieces up to `end`; False, from then on for good, where memory does not suffice."""
        try:
            while not self.short and len(self.pieces) * _PIECE < end:
                self.pieces.append(bytearray(_PIECE))
        except MemoryError:
            self.short = True
        return not self.short

    def _pieces(self, start: int, end: int) -> Iterator[memoryview]:
        while start < min(end, len(self.pieces) * _PIECE):
            number, at = divmod(start, _PIECE)
            length = min(_PIECE - at, end - start)
            yield memoryview(self.pieces[number])[at : at + length]
            start += length


def netcdf_image(data: xr.Dataset | xr.DataTree, encoding: Mapping[str, Any] | None = None) -> list[memoryview]:
    """The bytes of a netCDF-4 file, in pieces, which take as much memory as the file on the disk; `encoding` as xarray takes it."""
    image = _Image()
    try:
        # In a thread of its own, because Python raises KeyboardInterrupt in the main thread only: within a call of HDF5 it
        # would be one of the errors that HDF5 does not survive. Ctrl-C is seen when the image is complete.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(data.to_netcdf, image, engine="h5netcdf", encoding=encoding).result()
    except Exception:
        if not image.short:
            raise
    if image.short:
        raise MemoryError("there is not enough memory to write the file: as much as the file takes on the disk")
    return image.content()


_LEAST = 1024
"""Fewer values than this are stored as they are."""


def compress_draws(tree: xr.DataTree) -> xr.DataTree:
    """Have xarray compress the draws of a tree, which is changed in place and returned, when it writes them to a netCDF-4 file."""
    # Deflate after HDF5's *shuffle*, which puts the bytes of equal weight side by side: the upper bytes of small integers are all
    # zero, and vanish. So a file is as small as one of the smallest integer type, within a few per cent, and every reader still gets
    # int64. (Of int16 the square of 200 would be -25536, without an error.) How variables were stored in a file that they come from is
    # forgotten: as small integers with a scale they would be rounded again, and what files state for "missing" cannot be written.
    for node in tree.subtree:
        for variable in node.variables.values():
            variable.encoding.clear()
        for array in node.data_vars.values():
            if "draw" in array.dims and array.size >= _LEAST and array.dtype.kind in "iufb":
                array.encoding.update({"zlib": True, "complevel": 4, "shuffle": True})
    return tree


def write_draws(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a tree to a netCDF-4 file, with its draws compressed (`compress_draws`); the file is there in full, or as it was."""
    # The tree is in memory afterwards, and for the time of writing it takes as much memory again as the file takes on the disk.
    # (``tree.to_netcdf`` takes less, and ends the process with a segmentation fault when the disk is full.)
    check_output(path, overwrite=overwrite)
    write_bytes(path, _readable_image(tree), overwrite=overwrite)


def _readable_image(tree: xr.DataTree) -> list[memoryview]:
    """The bytes of the file: compressed, unless it would be so small that a reader could not believe what it declares."""
    image = netcdf_image(compress_draws(tree))
    declared = sum(array.nbytes for node in tree.subtree for array in node.to_dataset().variables.values())
    if declared <= _BELIEVED * Limits.of_draws(sum(map(len, image))).memory:
        return image
    for node in tree.subtree:
        for array in node.data_vars.values():
            array.encoding.clear()
    return netcdf_image(tree)


_BELIEVED = 0.95
"""Labels and the rest of a file take memory too."""


def write_draws_somewhere(tree: xr.DataTree, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """The same as `write_draws` for a process that ends afterwards: draws that cannot be written to `path` go elsewhere."""
    # Elsewhere is a file of a new name, ``NAME-xxxx.nc``, in the folder for temporary files (``TMPDIR``), that nobody else may read.
    image = _readable_image(tree)
    try:
        write_bytes(path, image, overwrite=overwrite)
    except OSError as error:
        try:
            handle, name = tempfile.mkstemp(prefix=f"{Path(path).stem[:40]}-", suffix=".nc")
            os.close(handle)
            try:
                write_bytes(name, image, overwrite=True)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as other:
            message = f"{_words(error)}; and the draws could not be kept elsewhere: {_words(other)}"
        else:
            message = f"{_words(error)}. The draws are in {name!r} instead: move that file before it is tidied away"
        raise OSError(message) from error


def _words(error: OSError) -> str:
    return str(error) if error.errno is None else f"{error.filename}: {error.strerror}"
