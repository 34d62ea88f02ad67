"""Calibration of `bayesdp.fit_hierarchy`: tables and hyperparameters from a prior, released at three levels of geography, and fitted.

``python -m benchmarks.calibration.hierarchy -o hierarchy.csv`` runs all priors (a part of ``make calibration``), each with a journal
of its own, so that a run that was stopped goes on. The truth is ranked among the posterior's draws: hyperparameters, cells, sums at
every level, the log-likelihood, and the error of the exact total.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from bayesdp import _validate
from bayesdp.calibration.runs import Journal, by_name, number, rank, run_all, unit
from bayesdp.calibration.study import TooFewDraws, joint_rank, squared_error_rank, thinned, uniform_rank
from bayesdp.calibration.verdict import Verdict, judge
from bayesdp.frames import Frame
from bayesdp.hierarchies.priors import AreaAndCell, CellPrior, VaryingShares, simulate_counts
from bayesdp.hierarchies.structure import Tree, levels_of, tree_of
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity, Margins, Query, SumPart, Totals
from bayesdp.release import Release
from bayesdp.storage import write_text
from bayesdp.streaming import fit_hierarchy
from benchmarks.calibration.table import versions

__all__ = ["COLUMNS", "PRIORS", "Simulation", "main", "run_prior", "write_results"]

type Floats = npt.NDArray[np.float64]

_TRACTS = 8
TABLE = {
    "tract": [f"t{i}" for i in range(_TRACTS)],
    "age": ["young", "old"],
    "race": ["a", "b", "c"],
    "county": ("tract", list("AAABBBBB")),
}
"""Tracts are listed county by county, so that the tree has them in the order of the table."""
FRAME = Frame.of(TABLE)
SIGMA: tuple[tuple[tuple[str, ...], float], ...] = (
    (("tract", "age", "race"), 4.0), (("tract", "race"), 1.0), (("tract",), 2.0), (("county", "age", "race"), 6.0),
    (("county", "race"), 1.5), (("age", "race"), 5.0),
)  # fmt: skip
"""What is measured, and the scale of its noise: precise sums of imprecise cells, as in the redistricting file."""

PRIORS: dict[str, CellPrior] = {
    "varying shares": VaryingShares(log_scale=1.5, scale_spread=0.7, log_shape=0.0, spread=1.0),
    "varying shares by county": VaryingShares("county", log_scale=1.5, scale_spread=0.7, log_shape=0.0, spread=1.0),
    "area and cell": AreaAndCell(log_mean=1.0, area_spread=0.7, cell_spread=1.0),
}
"""What is calibrated; narrower than the defaults, so that tables are of the size for which the noise was chosen."""

MOST = 20_000
"""Tables of more people, or of none, are drawn again: the total is published, so that the posterior of the others is what it was."""

COLUMNS = (
    "prior",
    "quantity",
    "simulations",
    "p_ranks",
    "p_dispersion",
    "ratio_of_errors",
    "p_adjusted",
    "seed",
    "versions",
)
_LONGER = (1, 4, 16)
_RECORD = {"seconds": number, "ranks": by_name(rank), "dispersion": by_name(unit), "ess": number, "longer": number}


def _query(keep: tuple[str, ...]) -> Query:
    return Identity(FRAME) if keep == ("tract", "age", "race") else Margins(FRAME, list(keep))


def _tree() -> Tree:
    return tree_of(FRAME, 0, levels_of(FRAME, 0, [SumPart(FRAME, ("county",)), SumPart(FRAME, ())]))


@dataclass(frozen=True)
class Simulation:
    """Calling it with a number draws a truth, releases it, fits the release and ranks the truth.

    Attributes
    ----------
    prior : str
        Of `PRIORS`.
    seed : int
    draws, tune : int
        Of one chain; four and sixteen times as many where it has hardly moved.
    wrong : float
        Factor by which the scale of all noise is misstated to the fit: for tests of this calibration.
    """

    prior: str
    seed: int
    draws: int = 400
    tune: int = 200
    wrong: float = 1.0

    def draw(self, rng: np.random.Generator) -> tuple[dict[str, Floats], npt.NDArray[np.int64], Release]:
        """Hyperparameters, table and release."""
        prior, tree = PRIORS[self.prior], _tree()
        while True:
            hyper = prior.draw(tree, rng)
            try:
                table = np.asarray(tree.in_frame(simulate_counts(prior, tree, hyper, rng))).reshape(FRAME.shape)
            except ValueError:  # more people than fit into a number
                continue
            if 0 < table.sum() <= MOST:
                break
        noisy = []
        for keep, sigma in SIGMA:
            query = _query(keep)
            noise = DiscreteGaussian(sigma=sigma).draw(rng, query.shape)
            noisy.append(Measured(query, query.apply(table) + noise, DiscreteGaussian(sigma=sigma * self.wrong)))
        exact = [Exact(Totals(FRAME), int(table.sum()))]
        how = "refuse" if self.wrong == 1.0 else "warn"  # under a wrong law the numbers contradict one another
        return hyper, table, Release.from_published(FRAME, noisy, exact, simulated=True, adding_up=how)

    def __call__(self, number: int) -> dict[str, Any]:
        """Run the simulation of a number; plain numbers, as `Study` has them."""
        start = time.perf_counter()
        streams = np.random.SeedSequence(self.seed, spawn_key=(number,)).spawn(3)
        hyper, table, release = self.draw(np.random.default_rng(streams[0]))
        for longer in _LONGER:
            tree = fit_hierarchy(
                release,
                PRIORS[self.prior],
                record={"table": Identity(FRAME)},
                draws=self.draws * longer,
                tune=self.tune * longer,
                chains=1,
                cores=1,
                random_seed=int(streams[2].generate_state(1)[0]),
                quiet=True,
                memory_check=False,
            )
            rng = np.random.default_rng(streams[1])
            try:
                found = _ranked(hyper, table, release, tree["posterior"].to_dataset(), rng)
            except TooFewDraws:
                if longer == _LONGER[-1]:
                    raise
                continue
            break
        return {"number": number, "seconds": time.perf_counter() - start, **found, "longer": longer}


def _ranked(
    hyper: dict[str, Floats],
    table: npt.NDArray[np.int64],
    release: Release,
    posterior: xr.Dataset,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Ranks of truth and of its squared errors, by quantity, and the smallest effective sample size."""
    draws = posterior["table"].values
    truth: dict[str, tuple[Any, Any]] = {}
    for name, value in hyper.items():
        truth[name] = value, posterior[name].values
    truth["cells"] = table, draws
    for keep in (("tract",), ("county", "race"), ("age", "race")):
        query = Margins(FRAME, list(keep))
        truth[" x ".join(keep)] = query.apply(table), query.apply(draws)
    truth["log-likelihood"] = _log_likelihood(release, table), _log_likelihood(release, draws)
    total = Totals(FRAME)
    exact = release.exact[0].values
    truth["error of exact total"] = np.abs(total.apply(table) - exact), np.abs(total.apply(draws) - exact)
    ranks: dict[str, float] = {}
    dispersion: dict[str, float] = {}
    smallest = np.inf
    for name, (one, many) in truth.items():
        least = np.inf
        flat, drawn = np.reshape(one, -1).astype(float), np.reshape(many, (*draws.shape[:2], -1)).astype(float)
        for i in _looked_at(name, flat.size):
            label = name if flat.size == 1 else f"{name}[{i}]"
            kept, ess = thinned(label, drawn[..., i])
            least = min(least, ess)
            ranks[label] = uniform_rank(flat[i], kept, rng)
            dispersion[label] = squared_error_rank(flat[i], kept, rng)
        smallest = min(smallest, least)
        if flat.size > 1:
            ranks[f"{name}: all squared errors"] = joint_rank(name, flat, drawn, rng, float(least))
    return {"ranks": ranks, "dispersion": dispersion, "ess": float(smallest)}


def _looked_at(name: str, size: int) -> list[int]:
    """Of an array the first element, one in the middle, and the last: tracts and cells are exchangeable; all in one sum besides."""
    return sorted({0, size // 2, size - 1})


def _log_likelihood(release: Release, tables: npt.NDArray[Any]) -> Floats:
    """Of the noisy answers given tables, up to a constant."""
    found = np.zeros(tables.shape[: tables.ndim - 3])
    for measured in release.measurements:
        own = np.asarray(measured.query.apply(tables)) - np.asarray(measured.values)
        law: Any = measured.law  # a discrete Gaussian one
        scale = float(np.asarray(law.sigma))
        found = found - 0.5 * np.square(own / scale).reshape(*found.shape, -1).sum(axis=-1)
    return np.asarray(found)


def run_prior(
    prior: str, *, n: int = 200, seed: int = 1, workers: int = 1, folder: Path | None = None, progressbar: bool = False,
    **settings: Any,
) -> tuple[Verdict, dict[str, Any]]:  # fmt: skip
    """Calibrate one prior.

    Returns
    -------
    verdict : Verdict
    numbers : dict
        ``failed``, the medians of the ``seconds`` of a simulation and of its smallest effective sample size ``ess``, and how many
        chains were drawn ``longer``.
    """
    own = int(np.random.SeedSequence([seed, zlib.crc32(prior.encode())]).generate_state(1)[0])
    task = Simulation(prior, own, **settings)
    path = None
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"hierarchy-{prior.replace(' ', '-')}.jsonl"
    about = {"what": "sbc", "task": repr(task), "prior": PRIORS[prior].formula, "versions": versions()}
    journal = Journal(path, about, _RECORD)
    count = _validate.positive_integer(n, "n")
    good, bad = run_all(task, count, journal, None, workers, "simulations", progressbar)
    if not good:
        raise ValueError(f"all {count} simulations failed; the first one: {bad[0]['error']}")
    names = good[0]["ranks"]
    verdict = judge(
        {name: [r["ranks"][name] for r in good] for name in names},
        {name: [r["dispersion"][name] for r in good] for name in good[0]["dispersion"]},
    )
    return verdict, {
        "failed": len(bad),
        "errors": [record["error"] for record in bad],
        "seconds": float(np.median([record["seconds"] for record in good])),
        "ess": float(np.median([record["ess"] for record in good])),
        "longer": sum(record["longer"] > 1 for record in good),
    }


def write_results(found: dict[str, Verdict], seed: int, path: Path) -> None:
    """Write a row for each prior and quantity as CSV, atomically."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for prior, verdict in found.items():
        for q in verdict.quantities:
            values = (prior, q.name, q.n, q.p_ranks, q.p_dispersion, q.ratio, q.p_adjusted, seed, versions())
            cells = [f"{value:.4g}" if isinstance(value, float) else value for value in values]
            writer.writerow(dict(zip(COLUMNS, cells, strict=True)))
    write_text(path, text.getvalue(), overwrite=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the calibration from a command line.

    Returns
    -------
    int
        0 if no prior is rejected, 1 if one is, 2 if simulations failed.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration.hierarchy", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, help="a CSV file")
    parser.add_argument("--n", type=int, default=200, help="simulations of each prior (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--workers", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--folder", type=Path, help="of journals: a run that was stopped goes on")
    parser.add_argument("--only", default="", metavar="WORD", help="priors with this word in their names")
    args = parser.parse_args(arguments)
    chosen = [prior for prior in PRIORS if args.only in prior]
    if not chosen:
        parser.error(f"no prior has {args.only!r} in its name")
    found: dict[str, Verdict] = {}
    failed = 0
    for prior in chosen:
        verdict, numbers = run_prior(
            prior, n=args.n, seed=args.seed, workers=args.workers, folder=args.folder, progressbar=sys.stderr.isatty()
        )
        print(json.dumps({"prior": prior, **numbers}))
        print(f"{prior}: {verdict}")
        found[prior] = verdict
        failed += numbers["failed"]
    if args.output is not None:
        try:
            write_results(found, args.seed, args.output)
        except OSError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
    if failed:
        return 2
    return int(not all(verdict.calibrated for verdict in found.values()))


if __name__ == "__main__":
    sys.exit(main())
