"""Published rules of offices, as laws."""

from bayesdp.noise import CellKey, TransitionTable


def ten_five_rule() -> CellKey:
    """The "10-5 rule" of the package cell-key-perturbation: counts below 10 become 0, others the nearest multiple of 5."""
    rest = {10 + r: {d: 1.0} for r, d in enumerate((0, -1, -2, 2, 1))}
    return CellKey(TransitionTable.by_count({x: {-x: 1.0} for x in range(10)} | rest, period=5))
