"""Geocodes of the spine that noise was added on, and ordinary codes of geography.

The spine of the redistricting file is not that of the tables. Its codes nest: the code of a geounit starts with that of the geounit
above it, and codes of one level have one length. They are made of

* one digit for the branch of the state, 1 for its legal American Indian and Alaska Native areas and 0 for the rest,
* two digits of the state,
* one digit for the kind of unit (1 for a county) and four of it,
* what the Bureau numbered the units below by, and
* for blocks, 16 digits at the end: state (2), county (3), tract (6), block group (1), block (4).

So states and blocks have ordinary codes for certain; counties have where the fourth digit is 1; tracts and counties have those
that all blocks below them agree on, where blocks are read. Block groups of the spine are not those of the tables and have none.
Source: the Bureau's published code that optimises the spine, and the public readers of the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from bayesdp._validate import shown

BLOCK_DIGITS = 16
"""Digits at the end of a block's geocode that are its ordinary code, with the block group between tract and block."""

SPLIT_STATES = frozenset(
    "01 02 04 06 08 09 12 13 15 16 18 19 20 22 23 25 26 27 28 30 31 32 35 36 37 38 40 41 45 46 47 48 49 51 53 55 56".split()
)
"""States with both branches in the 2020 spine."""


def state_code(geocode: str) -> str:
    """The two digits of the state."""
    return geocode[1:3]


def county_code(geocode: str) -> str | None:
    """The five digits of state and county of a geounit at or below the level of counties; None for units that are no counties.

    Examples
    --------
    >>> county_code("05010007"), county_code("050100011")
    ('50007', '50001')
    """
    return geocode[1:3] + geocode[5:8] if len(geocode) >= 8 and geocode[3:5] == "10" else None


def block_code(geocode: str) -> str:
    """The 15 digits of a block.

    Examples
    --------
    >>> block_code("05010007" + "0101" + "01" + "5000796010011003")
    '500079601001003'
    """
    end = geocode[-BLOCK_DIGITS:]
    return end[:11] + end[12:]


@dataclass(frozen=True, eq=False)
class Codes:
    """The geounits that were read, and their ordinary codes.

    Parameters
    ----------
    geounits : mapping
        Level -> geocodes.

    Examples
    --------
    >>> codes = Codes({"State": ("050", "150"), "County": ("05010007",)})
    >>> codes.ordinary("05010007"), codes.spine("50")
    ('50007', ('050', '150'))
    """

    geounits: Mapping[str, tuple[str, ...]]

    def ordinary(self, geocode: str) -> str | None:
        """The ordinary code of a geounit; None where it has none, or it does not follow from what was read."""
        if geocode not in self._ordinary:
            raise ValueError(f"{geocode!r} was not read; geounits that were are {shown(self._ordinary)}")
        return self._ordinary[geocode]

    def spine(self, code: str) -> tuple[str, ...]:
        """The geounits whose ordinary code this is; ValueError where there is none."""
        found = tuple(geocode for geocode, own in self._ordinary.items() if own == code)
        if not found:
            known = sorted({own for own in self._ordinary.values() if own is not None})
            raise ValueError(f"no geounit that was read has the code {code!r}; codes are {shown(known)}")
        return found

    @cached_property
    def _ordinary(self) -> dict[str, str | None]:
        blocks = self.geounits.get("Block", ())
        found: dict[str, str | None] = {}
        for level, geocodes in self.geounits.items():
            for geocode in geocodes:
                found[geocode] = _ordinary(level, geocode)
        # What all blocks below a unit say is certain; it takes the place of what its own code says.
        for level, digits in (("County", 5), ("Tract", 11)):
            below = _below(self.geounits.get(level, ()), blocks)
            for geocode, own in below.items():
                named = {block_code(block)[:digits] for block in own}
                found[geocode] = named.pop() if len(named) == 1 else None if named else found[geocode]
        return found


def _ordinary(level: str, geocode: str) -> str | None:
    if level == "US":
        return "US"
    if level == "State":
        return state_code(geocode)
    if level == "County":
        return county_code(geocode)
    return block_code(geocode) if level == "Block" else None


def _below(geocodes: Iterable[str], blocks: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {geocode: [] for geocode in geocodes}
    lengths = {len(geocode) for geocode in found}
    for block in blocks:
        for length in lengths:
            if block[:length] in found:
                found[block[:length]].append(block)
    return found
