"""How much memory a file may take: known from its size, and counted before anything is read."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CELLS = 50_000_000
"""Largest number of values that one variable may declare, unless the reader raises it: 400 MB of float64."""

VARIABLES = 1_000
"""Most variables in a file."""

GROUPS = 100
"""Most groups in a file: a saved posterior has some ten."""

DEPTH = 4
"""Most groups one inside the other: a saved posterior has one. xarray copies a group by copying what is in it twice, so the time
of a copy doubles with each: 18 took a minute."""

ATTRIBUTES = 5_000
"""Most attributes in a file, of all its variables and groups."""

_FREE_CELLS = 1_000_000
"""Cells that a table may have however small its file is; one more is allowed for each two bytes."""

_TABLE = 24 * 2**20
_TIMES_TABLE = 8
"""Nothing that bayesdp writes as a release takes more than 5 times its size when it is read: it is not compressed, and a
label of one letter takes 40 bytes in a file."""

_DRAWS = 192 * 2**20
_TIMES_DRAWS = 1100
"""Draws and other people's tables are compressed, and those that are constant by a factor of up to 1032. But only what is
above the first MB of a file counts so much: small files stay small."""

_MB = 2**20


def cell_limit(file_bytes: int, max_cells: int | None = None) -> int:
    """The largest number of cells of a table, of values of a variable and of answers of a query in a release.

    Examples
    --------
    >>> cell_limit(10_000), cell_limit(10**9), cell_limit(10_000, max_cells=20_000_000)
    (1005000, 50000000, 20000000)
    """
    return min(MAX_CELLS, _FREE_CELLS + file_bytes // 2) if max_cells is None else max_cells


@dataclass
class Budget:
    """Bytes of memory that the contents of one file may take, all together."""

    allowed: int
    spent: int = 0
    advice: str = ""  # what to do if the file is right, for the message

    @classmethod
    def of_release(cls, file_bytes: int, max_cells: int | None) -> Budget:
        """24 MB and 8 times the size of the file, or as much as 4 variables of `max_cells` need."""
        four_variables = 0 if max_cells is None else 32 * max_cells
        advice = "; if that is right, raise the limit with max_cells"
        return cls(max(_TABLE, four_variables) + _TIMES_TABLE * file_bytes, advice=advice)

    @classmethod
    def of_draws(cls, file_bytes: int) -> Budget:
        """192 MB, and what deflate can pack into the file beyond its first MB."""
        advice = "; if that is right, save it without compression"
        return cls(_DRAWS + _TIMES_DRAWS * max(0, file_bytes - _MB), advice=advice)

    def take(self, amount: int, where: str) -> None:
        """Count what something takes, before it is read."""
        self.spent += amount
        if self.spent > self.allowed:
            raise ValueError(
                f"{where} and what comes before it declare {self.spent} bytes, more than the {self.allowed} that a file "
                f"of this size may take{self.advice}"
            )
