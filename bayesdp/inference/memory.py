"""How much memory the draws of a model will need, and how much there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import pymc as pm

from bayesdp.inference.runs.fingerprint import planned
from bayesdp.steps.base import start_of

LARGE_TABLES = (
    "For tables with noisy sums at levels of a geography there is bdp.fit_hierarchy, which keeps no draws of cells, and for estimates "
    "by least squares, without a prior, bdp.gls; see docs/how-to/large-table.md"
)
"""What to do with a table whose draws are too many."""
_REMEDY = (
    "Record less: fewer `draws`, each after more moves (`fiber_gibbs={'sweeps': 8}` for the counts, in place of thinning); "
    "fewer of `tune`, which are held as well; or functions of the table instead of the table, each a pm.Deterministic in the "
    "model and named in `var_names`. `memory_check=False` goes on regardless. "
    f"Where only single cells are noisy, and nothing is exact, bdp.fit_cells needs no draws. {LARGE_TABLES}"
)


def memory_needed(model: pm.Model, given: Mapping[str, Any]) -> int:
    """Bytes that the draws take at most while ``pm.sample`` runs and its result is made."""
    # Every draw, those of the tuning too, is held with all variables and their transforms, 8 bytes a number; at the end the draws
    # that are kept are copied twice (into arrays of all chains, and while diagnostics are computed).
    chains, draws, tune = planned(given)
    wanted = given.get("var_names")
    sizes = {name: size for name, size in _sizes(model).items() if wanted is None or name in wanted}
    transforms = {model.rvs_to_values[rv].name for rv in model.free_RVs} - {rv.name for rv in model.free_RVs}
    held = sum(sizes.values())
    kept = sum(size for name, size in sizes.items() if name not in transforms)
    return 8 * chains * ((draws + tune) * held + 2 * draws * kept)


def _sizes(model: pm.Model) -> dict[str, int]:
    """Numbers in one draw of each variable that PyMC records."""
    start = start_of(model)
    sizes = {name: value.size for name, value in start.items()}
    others = [own for own in model.unobserved_value_vars if own.name not in sizes]
    sizes |= {own.name: prod(own.type.shape) for own in others if None not in own.type.shape}
    if unknown := [own for own in others if own.name not in sizes]:
        outputs = [own.shape.prod() for own in unknown]
        found = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore")(start)
        sizes |= {own.name: int(size) for own, size in zip(unknown, found, strict=True)}
    return sizes


def check_memory(model: pm.Model, given: Mapping[str, Any], remedy: str = _REMEDY) -> None:
    """Refuse a run whose draws do not fit."""
    # `given`: arguments of `pm.sample`. Draws that go to a `trace` of the user's own, which may be on disk, are not counted.
    # `remedy`: what to do instead: the end of the message.
    if given.get("trace") is None:
        chains, draws, tune = planned(given)
        who = f"{chains} chains of {draws:,} draws (and {tune:,} before them) need"
        refuse_if_short(who, memory_needed(model, given), remedy)


def refuse_if_short(who: str, size: int, remedy: str) -> None:
    """MemoryError unless so many bytes are available, as far as that is known; `who` says what needs them, with its verb."""
    free = available_memory()
    if free is not None and size > free:
        raise MemoryError(f"{who} about {in_words(size)} of memory, and {in_words(free)} are available. {remedy}")


def in_words(size: int) -> str:
    """A number of bytes in a message."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes that a process may still take: what the system has, or less if a control group (a container) limits it."""
    # `root`: where `proc` and `sys` are. None where the system does not say (other systems than Linux).
    free, found = _entry(root / "proc/meminfo", "MemAvailable:"), list(_of_groups(root))
    if free is not None:
        found.append(free * 1024)
    return max(0, min(found)) if found else None


def _of_groups(root: Path) -> Iterator[int]:
    """What is left in the group of the process and in every group that it is part of, of both versions of control groups."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, limit, used, cache = root / "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            mount, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            group = mount.joinpath(*parts[:depth])
            most, taken = _text(group / limit).strip(), _text(group / used).strip()
            if most.isdigit() and taken.isdigit():  # "max": no limit
                # Cached files are given back when room is needed.
                yield int(most) - int(taken) + (_entry(group / "memory.stat", cache) or 0)


def _entry(path: Path, name: str) -> int | None:
    """The number behind a name, on a line of a file; None if there is none."""
    for line in _text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value.split()[0])
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
