"""Where the files of a product are.

``<root>/US_Person_PL_PROD/<Level>.parquet/{DPQuery|Constraint}/State=<number>/part-*.parquet``, where the files of the DHC may have
``County=<number>`` below the state. What is not like that is refused, or named, and never passed over.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from bayesdp._validate import shown
from bayesdp.datasets.nmf.products import Product

__all__ = ["KINDS", "Folder", "branch_of", "find_folder"]

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
    """

    path: Path
    levels: tuple[str, ...]

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
        if not folder.is_dir():
            return []
        found = []
        for file in sorted(folder.rglob("*.parquet")):
            if file.is_file() and not file.name.startswith((".", "_")) and _may_hold(file, folder, state, county):
                found.append(file)
        return found

    def check_kinds(self, level: str) -> list[str]:
        """The folders of a level that are not known here; ValueError if it has neither noisy answers nor constraints."""
        folder = self.path / f"{level}.parquet"
        there = sorted(own.name for own in folder.iterdir() if not own.name.startswith((".", "_")))
        if not set(there) & set(KINDS):
            raise ValueError(
                f"{folder} has none of the folders {' and '.join(KINDS)}, in which rows are looked for; there are "
                f"{shown(there) if there else 'no files'}: this layout is not known here"
            )
        return [name for name in there if name not in KINDS]

    def unknown_levels(self, product: Product) -> list[str]:
        """What is there in the form of a level that the product has not."""
        found = (own.name.removesuffix(".parquet") for own in self.path.glob("*.parquet") if own.is_dir())
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
    """The folder of a product, at `path` or below it.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    ValueError
        If there are several, or it has no level of the product.
    """
    root = Path(path)
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is no folder")
    found = [root] if _has_levels(root, product) else []
    if not found:
        prefix = "PR" if state == _PUERTO_RICO else "US"
        below = sorted(own for own in root.iterdir() if own.is_dir() and own.name.endswith(product.suffix))
        found = [own for own in below if own.name.startswith(prefix)] or (below if len(below) == 1 else [])
        if not found:
            there = sorted(own.name for own in root.iterdir())
            raise FileNotFoundError(
                f"{root} has no folder {prefix}{product.suffix} of the product {product.name!r}, and no folders <Level>.parquet; "
                f"there are {shown(there) if there else 'no files'}{_further_down(root, product)}"
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
    return Folder(found[0], tuple(level for level in product.levels if (found[0] / f"{level}.parquet").is_dir()))


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
