"""Where a run stands, in a file: a driver that was killed goes on from there."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.storage import write_bytes
from bayesdp.streaming.parts.state import packed_arrays, unpacked_arrays

type Ints = npt.NDArray[np.int64]
type Records = dict[str, npt.NDArray[Any]]

NAME = "parts.bin"
"""Name of the file in its folder."""

SUMS = "sums of parts in "
"""Before the name of a noisy query above the parts: what each part adds to it, among what is recorded above the parts."""


@dataclass(eq=False)
class Standing:
    """Where a run stands between two phases."""

    phase: int  # phases that are done, tuning among them
    states: list[list[bytes]]  # chain by chain, part by part
    tables: Ints  # sums over the leaves of each part, shape (chains, K, C)
    records: list[list[Records]]  # what is recorded of each part of each chain: arrays with a row for each draw
    tops: list[Records]  # what is recorded of each chain above the parts: arrays with a row for each phase


def save(folder: Path, standing: Standing, run: dict[str, Any]) -> None:
    """Write where a run stands; the file is whole at any moment."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "run": np.frombuffer(json.dumps(run).encode(), dtype=np.uint8),
        "phase": np.array(standing.phase),
        "tables": standing.tables,
    }
    for c, states in enumerate(standing.states):
        for k, state in enumerate(states):
            arrays[f"state {c} {k}"] = np.frombuffer(state, dtype=np.uint8)
            arrays |= {f"record {c} {k} {name}": own for name, own in standing.records[c][k].items()}
        arrays |= {f"top {c} {name}": own for name, own in standing.tops[c].items()}
    write_bytes(folder / NAME, [packed_arrays(arrays)], overwrite=True)


def load(folder: Path) -> tuple[Standing, dict[str, Any]]:
    """Read where a run stands, and what run it is."""
    path = folder / NAME
    try:
        arrays = unpacked_arrays(path.read_bytes())
        run = json.loads(arrays["run" if "run" in arrays else "identity"].tobytes())  # as earlier versions called it
        chains, parts = arrays["tables"].shape[:2]
        found = Standing(
            int(arrays["phase"]),
            [[arrays[f"state {c} {k}"].tobytes() for k in range(parts)] for c in range(chains)],
            arrays["tables"],
            [[{} for _ in range(parts)] for _ in range(chains)],
            [{} for _ in range(chains)],
        )
    except (zlib.error, ValueError, KeyError, EOFError) as error:
        raise ValueError(f"{str(path)!r} is no file of bdp.fit_parts that can be read: {error}") from error
    for name, own in arrays.items():
        kind, *rest = name.split(" ", 3)
        if kind == "record":
            found.records[int(rest[0])][int(rest[1])][rest[2]] = own
        elif kind == "top":
            found.tops[int(rest[0])][name.split(" ", 2)[2]] = own
    return found, run
