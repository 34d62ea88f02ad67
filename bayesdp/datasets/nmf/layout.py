"""Where the files of a product are.

``<root>/US_Person_PL_PROD/<Level>.parquet/{DPQuery|Constraint}/State=<number>/part-*.parquet``, where the files of the DHC may have
``County=<number>`` below the state. What is not like that is refused, or named, and never passed over. Links are followed within the
folder that was asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bayesdp._validate import shown
from bayesdp.datasets.folders import below, checked, is_hidden
from bayesdp.datasets.nmf.products import Product

KINDS = ("DPQuery", "Constraint")

_PUERTO_RICO = "72"
_DEEPEST = 3
"""So many folders down it is looked for levels, to name them in an error."""


@dataclass(frozen=True)
class Folder:
    """The folder of a product.

    Parameters
    ----------
    path : Path
        With a folder ``<Level>.parquet`` for each level.
    levels : tuple of str
        Those that are there, from the top down.
    root : Path
        The folder that was asked for, out of which no link may lead.
    """

    path: Path
    levels: tuple[str, ...]
    root: Path

    def files(self, level: str, kind: str, state: str | None = None, county: str | None = None) -> list[Path]:
        """Files of a level and kind that may hold what is asked for.

        Parameters
        ----------
        level : str
        kind : {"DPQuery", "Constraint"}
        state : str, optional
            The first three digits of geocodes; partitions of other states are not opened, however their number is spelled
            (``State=1``, ``State=01``, ``State=001``).
        county : str, optional
            The digits of geocodes after these, for partitions by county.

        Returns
        -------
        list of Path
            Sorted; empty if there are none.
        """
        folder = self.path / f"{level}.parquet" / kind
        return [file for file in self._below(folder) if _has_rows(file) and _may_hold(file, folder, state, county)]

    def _below(self, folder: Path) -> list[Path]:
        return below(folder, self.root, _has_rows) if os.path.lexists(folder) else []

    def strangers(self, level: str) -> list[tuple[str, str]]:
        """What a level has besides files with rows, and why that is not used; ValueError if it has no kind that is known."""
        folder = self.path / f"{level}.parquet"
        there = sorted(own.name for own in _told(folder.iterdir()))
        if not set(there) & set(KINDS):
            raise ValueError(
                f"{folder} has none of the folders {' and '.join(KINDS)}, in which rows are looked for; there are "
                f"{shown(there) if there else 'no files'}: this layout is not known here"
            )
        found = [(name, "it is not known here what is in that folder") for name in there if name not in KINDS]
        others = _told(own for kind in KINDS for own in self._below(folder / kind) if not _has_rows(own))
        found += [(str(own.relative_to(folder)), "there are no rows that are known here") for own in others]
        return found

    def unknown_levels(self, product: Product) -> list[str]:
        """What is beside the levels of the product."""
        found = (own.name.removesuffix(".parquet") for own in _told(self.path.iterdir()))
        return sorted(set(found) - set(product.levels))

    def branches(self, level: str) -> set[str]:
        """The first three digits of the geocodes of a level, as its partitions state them; empty where there are none."""
        folder = self.path / f"{level}.parquet"
        found = (_number(part.name, "State") for part in folder.glob("*/State=*"))
        return {f"{number:03d}" for number in found if number is not None}


def branch_of(file: Path) -> str | None:
    """The first three digits of the geocodes in a file, as the partition that it is in states them; None where none does."""
    found = None
    for part in file.parts[:-1]:
        number = _number(part, "State")
        # What is above the folder of the level is the user's own.
        found = None if part.endswith(".parquet") else found if number is None else f"{number:03d}"
    return found


def _number(name: str, key: str) -> int | None:
    match = re.fullmatch(rf"{key}=(\d+)", name)
    return int(match[1]) if match else None


def _may_hold(file: Path, folder: Path, state: str | None, county: str | None) -> bool:
    for part in file.relative_to(folder).parts[:-1]:
        number = _number(part, "State")
        if number is not None and state is not None and number != int(state):
            return False
        number = _number(part, "County")
        if number is not None and county:
            # How counties are spelled is not documented: three digits, four, with the kind of unit or with a digit of a split.
            # A file that is opened for nothing costs time; one that is passed over, rows.
            spelled = {int(own) % 1000 for own in (county[:5], county) if own.isdigit()}
            if number % 1000 not in spelled and number // 10 % 1000 not in spelled:
                return False
    return True


def find_folder(path: str | os.PathLike[str], product: Product, state: str | None) -> Folder:
    """The folder of a product, at `path` or below it."""
    root = Path(path)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is no folder")
    found = [root] if _has_levels(root, product) else []
    if not found:
        prefix = "PR" if state == _PUERTO_RICO else "US"
        there = sorted(own for own in root.iterdir() if own.is_dir() and own.name.endswith(product.suffix))
        found = [own for own in there if own.name.startswith(prefix)] or (there if len(there) == 1 else [])
        if not found:
            names = sorted(own.name for own in root.iterdir())
            raise FileNotFoundError(
                f"{root} has no folder {prefix}{product.suffix} of the product {product.name!r}, and no folders <Level>.parquet; "
                f"there are {shown(names) if names else 'no files'}{_further_down(root, product)}"
            )
    if len(found) > 1:
        raise ValueError(
            f"{root} has several folders of the product {product.name!r}: {shown(str(own) for own in found)}"
        )
    if not _has_levels(found[0], product):
        raise ValueError(
            f"{found[0]} has no level of the product {product.name!r}, such as {product.levels[0]}.parquet; levels are "
            f"{shown(product.levels, 10)}"
        )
    for own in (found[0], *_told(found[0].iterdir())):
        if not checked(own, root).is_dir() and own.name.removesuffix(".parquet") in product.levels:
            raise ValueError(f"{own} is a file; a level is a folder, with {' and '.join(KINDS)} in it")
    return Folder(found[0], tuple(level for level in product.levels if (found[0] / f"{level}.parquet").is_dir()), root)


def _told(paths: Iterable[Path]) -> list[Path]:
    """Without what programs write beside files of rows to check them."""
    return [own for own in paths if own.name != "_SUCCESS" and own.suffix != ".crc"]


def _has_rows(path: Path) -> bool:
    return path.suffix == ".parquet" and path.is_file() and not is_hidden(path)


def _further_down(root: Path, product: Product) -> str:
    """The end of a message: folders below that have levels, one of which may be what is meant."""
    found, level = [], [root]
    for _ in range(_DEEPEST):
        level = [own for folder in level for own in sorted(folder.iterdir()) if own.is_dir()]
        found += [own for own in level if _has_levels(own, product)]
        level = [own for own in level if own not in found]
    if not found:
        return ""
    return f"; folders with levels of geography are {shown(str(own) for own in found)}: give the one of the product"


def _has_levels(folder: Path, product: Product) -> bool:
    return any((folder / f"{level}.parquet").is_dir() for level in product.levels)
