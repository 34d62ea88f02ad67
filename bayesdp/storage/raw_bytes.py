"""The bytes of a file, read with care: no address leads out of it, and no part of it is walked again and again."""

from __future__ import annotations

import mmap
from pathlib import Path


class RawBytes:
    """The bytes of an HDF5 file that starts at its first byte, with addresses and lengths of 8 bytes."""

    # Use it with `with`. `path`: file that starts with the signature of HDF5.

    def __init__(self, path: Path) -> None:
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._visited = 0
        version = self.number(8, 1)
        widths, base = (13, {0: 24, 1: 28}[version]) if version < 2 else (9, 12)
        if version > 3 or self.part(widths, 2) != b"\x08\x08" or self.number(base, 8) != 0:
            self.close()
            raise self.unknown("addresses")

    def __enter__(self) -> RawBytes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._bytes)

    def close(self) -> None:
        """Let go of the file."""
        self._bytes.close()

    def part(self, start: int, size: int) -> bytes:
        """Some bytes; ValueError if they are not all in the file."""
        if start < 0 or size < 0 or start + size > len(self._bytes):
            raise self.damaged("an address leads out of it")
        return self._bytes[start : start + size]

    def number(self, start: int, size: int) -> int:
        """An unsigned whole number, little end first."""
        return int.from_bytes(self.part(start, size), "little")

    def visit(self, start: int, size: int) -> None:
        """Note that a part of the file is walked; ValueError if all walks together are longer than the file.

        Honest structures do not overlap, and each is walked once. Without this, a few bytes that are part of many
        structures would be walked many times: the time would grow with the square of the size of the file.
        """
        self._visited += size
        if start + size - 1 > len(self._bytes) or self._visited > len(self._bytes):
            raise self.damaged("its parts overlap or do not end")

    def damaged(self, why: str) -> ValueError:
        """The error of a file that is not what it says."""
        return ValueError(f"the file is truncated or damaged ({why})")

    def unknown(self, what: str) -> ValueError:
        """The error of a file that may be right, but not for us."""
        return ValueError(f"the file keeps {what} in a form that is not read; write it again with xarray and h5netcdf")
