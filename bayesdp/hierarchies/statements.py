"""What is published of a hierarchy, part by part and level by level: noisy sums with precisions, and exact sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.hierarchies.structure import sum_parts
from bayesdp.hierarchies.tree import Tree
from bayesdp.hierarchies.two_pass import Axis, Codes, LevelData
from bayesdp.measurements import Measured
from bayesdp.queries import Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Noisy sums, and the inverse variances of their noise; 0 where an answer was not published. Both of shape (rows,)."""

    part: SumPart
    values: Floats
    precision: Floats


@dataclass(frozen=True, eq=False)
class ExactSums:
    """Exact sums, shape (rows,)."""

    part: SumPart
    values: Floats


def noisy_answers(measured: Measured, estimate: str) -> tuple[Query, Floats, Floats]:
    """The answers of a measurement and the inverse variances of their noise, flat; errors name the `estimate` that wants them."""
    law, name = measured.law, measured.name or repr(measured)
    if law.keeps_invariants or not (law.additive and law.independent):
        raise ValueError(f"{estimate} needs independent noise that is added, and {law.name!r} of {name} is none")
    found = law.variance(measured.query.shape)
    if found is None:
        raise ValueError(f"{estimate} needs the variance of the noise, and that of {law.name!r} of {name} is not known")
    variance = np.broadcast_to(np.asarray(found, dtype=np.float64), measured.query.shape).reshape(-1)
    hidden = measured.unmeasured.reshape(-1)
    wrong = np.flatnonzero(~hidden & ~((variance > 0.0) & np.isfinite(variance)))
    if wrong.size:
        answer = measured.query.answer_name(int(wrong[0]))
        raise ValueError(
            f"{estimate} needs noise of positive, finite variance, and that of {name} at {answer} is {variance[wrong[0]]:g}; state "
            "answers without noise as Exact"
        )
    values = np.where(hidden, 0.0, np.asarray(measured.values, dtype=np.float64).reshape(-1))
    return measured.query, values, np.where(hidden, 0.0, 1.0 / np.where(hidden, 1.0, variance))


def by_part(query: Query, *answers: Floats) -> Iterable[tuple[Any, ...]]:
    """Answers part by part; NoStructure if there are weights."""
    sum_parts([query])
    return [(part, *(numbers[rows] for numbers in answers)) for part, rows in query.placed_parts]


def _dims(tree: Tree) -> list[int]:
    """The dimensions of the cells of a leaf."""
    return [d for d in range(len(tree.frame.dims)) if d != tree.axis]


def codes_of(tree: Tree, part: SumPart, product: bool) -> Codes:
    """The sum in which each cell counts, dimension by dimension of a product, or on all cells of a leaf as one dimension."""
    if product:
        return tuple(None if part.levels[d] is None else part.codes[d] for d in _dims(tree)) or (None,)
    code = np.zeros((), dtype=np.int64)
    for d in _dims(tree):
        code = code[..., None] * (int(part.codes[d].max()) + 1) + part.codes[d]
    return (code.reshape(-1),)


def axes_of(tree: Tree, parts: Sequence[SumPart]) -> list[Axis]:
    """The dimensions of the cells with the groups that these parts keep."""
    found = []
    for d in _dims(tree):
        recodes: dict[str, Ints] = {}
        for part in parts:
            name, codes = part.levels[d], part.codes[d]
            if name is not None and 1 < int(codes.max()) + 1 < len(codes):
                recodes[name] = codes
        found.append(Axis.of(tree.frame.shape[d], list(recodes.values())))
    return found or [Axis.of(1, [])]


def _places(tree: Tree, part: SumPart) -> tuple[list[int], Ints]:
    """How many labels a part tells apart on each dimension, and the place of each node of its level among those of the leaves."""
    first = tree.node_range[0][tree.nodes_of(tree.level_of(part))]
    return [int(codes.max()) + 1 for codes in part.codes], part.codes[tree.axis][tree.order][first]


def by_node(tree: Tree, part: SumPart, values: Floats) -> Floats:
    """Answers of a part, shape (rows,), as an array of shape ``(nodes of its level, *sums)``, 1 where a dimension is summed over."""
    sizes, nodes = _places(tree, part)
    found = np.moveaxis(values.reshape(sizes), tree.axis, 0)[nodes]
    return found if found.ndim > 1 else found[:, None]


def in_part(tree: Tree, part: SumPart, answers: Floats) -> Floats:
    """The way back: shape ``(nodes, *sums)`` to (rows,)."""
    sizes, nodes = _places(tree, part)
    found = np.empty((sizes[tree.axis], *(sizes[d] for d in _dims(tree))))
    found[nodes] = answers.reshape(len(nodes), *found.shape[1:])
    return np.moveaxis(found, 0, tree.axis).reshape(-1)


def is_product(tree: Tree, noisy: Sequence[NoisySums]) -> bool:
    """Whether all answers of a query at a node have one precision: none is missing beside others."""
    for own in noisy:
        if np.any(own.precision != own.precision[0]):
            precision = by_node(tree, own.part, own.precision)
            flat = precision.reshape(len(precision), -1)
            if np.any(flat != flat[:, :1]):
                return False
    return True


def level_data(tree: Tree, noisy: Sequence[NoisySums], exact: Sequence[ExactSums], product: bool) -> list[LevelData]:
    """What is published of the nodes of each level."""
    # `product`: in the dimensions of the cells, with one precision for all answers of a query at a node; otherwise with all cells
    # of a leaf as one dimension, and a precision an answer.
    queries: list[list[tuple[Codes, Floats, Floats]]] = [[] for _ in tree.levels]
    known: list[list[tuple[Codes, Floats]]] = [[] for _ in tree.levels]
    for own in noisy:
        answers, precision = by_node(tree, own.part, own.values), by_node(tree, own.part, own.precision)
        flat = precision.reshape(len(precision), -1)
        shaped = (flat[:, 0], answers) if product else (flat, answers.reshape(flat.shape))
        queries[tree.level_of(own.part)].append((codes_of(tree, own.part, product), *shaped))
    for stated in exact:
        answers = by_node(tree, stated.part, stated.values)
        answers = answers if product else answers.reshape(len(answers), -1)
        known[tree.level_of(stated.part)].append((codes_of(tree, stated.part, product), answers))
    parents = [tree.parents(level) for level in range(len(tree.levels) - 1)]
    return [
        LevelData(len(tree.nodes_of(level)), parent, queries[level], known[level])
        for level, parent in enumerate([*parents, None])
    ]
