"""netCDF-4 files in memory, so that what is written to a disk is plain bytes.

HDF5 does not survive a disk that fills up: a file whose last blocks cannot be written cannot be closed either, and the library
tries once more when the process ends, which is a segmentation fault. Nothing of the kind can happen to a file in memory,
and the draws are still there when the bytes cannot be written.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import xarray as xr

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

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

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
    r"""The bytes of a netCDF-4 file, in pieces.

    Parameters
    ----------
    data : xarray.Dataset or xarray.DataTree
    encoding : mapping, optional
        As xarray takes it.

    Returns
    -------
    list of memoryview
        They take as much memory as the file will take on the disk: the numbers of `data` are compressed bit by bit.


    Examples
    --------
    >>> pieces = netcdf_image(xr.Dataset({"x": ("cell", [1, 2])}))
    >>> bytes(pieces[0][:4])
    b'\x89HDF'
    """
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
