"""The cells of the table that is built: how finely each axis of the histogram is cut, and queries as sums of these cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bayesdp._validate import shown
from bayesdp.datasets.nmf.binnings import Axis, Binning
from bayesdp.datasets.nmf.histograms import Histogram
from bayesdp.datasets.nmf.spine import Spine
from bayesdp.frames import Frame


@dataclass(frozen=True, eq=False)
class Cells:
    """How each axis of a histogram is cut; one that is summed over is no dimension of the table.

    Parameters
    ----------
    histogram : Histogram
    cuts : tuple of Binning
        One an axis, each of which covers it.
    """

    histogram: Histogram
    cuts: tuple[Binning, ...]

    @property
    def axes(self) -> list[tuple[Axis, Binning]]:
        """The axes that are dimensions of the table, and how they are cut."""
        return [(axis, cut) for axis, cut in zip(self.histogram.axes, self.cuts, strict=True) if len(cut.members) > 1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of labels of each."""
        return tuple(len(cut.members) for _, cut in self.axes)

    @property
    def size(self) -> int:
        """Cells of a leaf."""
        return int(np.prod(self.shape, dtype=np.int64))

    def span(self, bins: Sequence[Binning]) -> str | None:
        """Why sums by these binnings, one an axis, are no sums of the cells; None where they are."""
        for axis, cut, asked in zip(self.histogram.axes, self.cuts, bins, strict=True):
            if not asked.covers:
                return f"{asked.name!r} picks out some values of {axis.name!r}"
            if not cut.refines(asked):
                how = "sums over" if len(cut.members) == 1 else f"cuts by {cut.name!r}"
                return f"it is by {asked.name!r}, and the table {how} {axis.name!r}"
        return None

    def kept(self, bins: Sequence[Binning]) -> tuple[str, ...]:
        """What sums by these binnings keep of the table: names of dimensions or of groups (`groups`)."""
        names = []
        for axis, cut, asked in zip(self.histogram.axes, self.cuts, bins, strict=True):
            if len(asked.members) == 1:
                continue
            names.append(axis.name if len(asked.members) == len(cut.members) else asked.name)
        return tuple(names)

    def groups(self, asked: Iterable[Sequence[Binning]]) -> dict[str, tuple[str, list[str]]]:
        """Group labels that queries need: name -> dimension and labels."""
        found: dict[str, tuple[str, list[str]]] = {}
        for bins in asked:
            for axis, cut, own in zip(self.histogram.axes, self.cuts, bins, strict=True):
                if 1 < len(own.members) < len(cut.members):
                    found[own.name] = (axis.name, [own.labels[g] for g in cut.groups_in(own)])
        return found


def cells_of(
    histogram: Histogram, asked: Iterable[Sequence[Binning]] | None, stated: Mapping[str, str] | None
) -> Cells:
    """The cells that a user states, and elsewhere the coarsest that queries are sums of."""
    # `asked`: the queries; None for all there are. `stated`: axis -> name of a binning.
    given = dict(stated or {})
    unknown = [name for name in given if name not in histogram.names]
    if unknown:
        raise ValueError(f"cells names {shown(unknown)}, which are no axes; axes are {shown(histogram.names)}")
    listed = None if asked is None else list(asked)
    cuts = []
    for i, axis in enumerate(histogram.axes):
        if axis.name in given:
            if given[axis.name] not in axis.partitions and given[axis.name] != axis.name:
                raise ValueError(
                    f"cells cuts {axis.name!r} by {given[axis.name]!r}; it can be cut by {shown(axis.partitions, 12)}"
                )
            cuts.append(axis.binning(given[axis.name]))
        else:
            cuts.append(axis.detailed if listed is None else axis.coarsest(bins[i] for bins in listed))
    return Cells(histogram, tuple(cuts))


def frame_of(spine: Spine, cells: Cells, asked: Iterable[Sequence[Binning]]) -> Frame:
    """The frame of the table: leaves by cells, with the levels above the leaves and the recodes of queries as groups."""
    leaf = spine.leaf.lower()
    source: dict[str, object] = {leaf: list(spine.leaves)}
    for axis, cut in cells.axes:
        source[axis.name] = list(cut.labels)
    for level in spine.levels[1:]:
        source[level.lower()] = (leaf, [spine.nodes[level][node] for node in spine.node_of_leaf[level]])
    if spine.states is not None:
        source["state_fips"] = (leaf, list(spine.states))
    for name, (dim, labels) in cells.groups(asked).items():
        source[name] = (dim, labels)
    return Frame.of(source)
