"""A run of `bdp.fit_hierarchy` whose arguments are all valid: what it is, its chains, and its result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import Any

import numpy as np
import xarray as xr

import bayesdp
from bayesdp._interrupts import deferred
from bayesdp.fibers import Target
from bayesdp.hierarchies.priors import CellPrior
from bayesdp.hierarchies.structure import Structure
from bayesdp.inference.annotating import add_group_labels, add_releases_to
from bayesdp.inference.interrupt import attach_draws, note_run
from bayesdp.inference.runs.fingerprint import fingerprint
from bayesdp.queries import Query
from bayesdp.release import Release
from bayesdp.storage import compress_draws
from bayesdp.streaming.budget import Budget, Plan
from bayesdp.streaming.journal import KeptTables, RunJournal
from bayesdp.streaming.one_chain import OneChain
from bayesdp.streaming.plausible import TableWriter
from bayesdp.streaming.result import cells_of, diagnostics_of, limits_of, posterior_of
from bayesdp.streaming.running import longest_together, run_all


@dataclass(frozen=True, eq=False)
class Run:
    """A run whose arguments are all valid."""

    release: Release
    target: Target
    structure: Structure
    prior: CellPrior
    plan: Plan
    queries: dict[str, Query]

    @property
    def budget(self) -> Budget:
        """Memory that it takes."""
        hyper = self.prior.start(self.structure, np.zeros(self.structure.free.shape, dtype=np.int64))
        recorded = sum(query.rows for query in self.queries.values())
        recorded += sum(prod(np.shape(hyper[name])) for name in self.prior.names)
        return Budget.of(self.structure, self.plan, recorded)

    def attributes(self, seed: Any) -> dict[str, str]:
        """What is said of it in the result and with plausible tables."""
        return {
            "bayesdp_version": bayesdp.__version__,
            "numpy_version": np.__version__,
            "seed": "not recorded" if seed is None or isinstance(seed, np.random.Generator) else str(seed),
            "prior": self.prior.formula,
            "release": repr(self.release),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }

    def described(self, generator: np.random.Generator | None, tables: TableWriter | None) -> dict[str, Any]:
        """What makes the draws what they are, for a journal."""
        return fingerprint(
            release=self.release,
            prior=self.prior,
            leaves=self.structure.frame.dims[self.structure.axis],
            record=self.queries,
            tables=0 if tables is None else sum(map(len, tables.numbers)),
            seed=generator,
            **self.plan.of_draws,
        )

    def sampled(
        self,
        generator: np.random.Generator,
        writer: TableWriter | None,
        told: Any,
        attributes: dict[str, str],
        journal: RunJournal | None = None,
    ) -> xr.DataTree:
        """Run the chains; the result."""
        tables = writer if writer is None or journal is None else KeptTables(journal, writer)
        try:
            where = np.flatnonzero(self.structure.free.reshape(-1)).astype(np.int64)
            chains = [
                OneChain(
                    i,
                    self.target,
                    self.structure,
                    self.prior,
                    self.plan,
                    self.queries,
                    where,
                    own,
                    tables,
                    None if journal is None else journal.writer(i),
                )
                for i, own in enumerate(generator.spawn(self.plan.chains))
            ]
            early = run_all(chains, self.plan.cores, told)
        except BaseException:
            if writer is not None:
                writer.abandon()
            raise
        with deferred():
            tree = self._tree(longest_together(chains), attributes)
        note_run(tree, resumed=0 if journal is None else journal.resumed, interrupted=early)
        if early:
            if writer is not None:
                writer.abandon()
        elif writer is not None:
            with attach_draws(tree):
                if isinstance(tables, KeptTables):
                    tables.give(self.structure.free.shape)
                writer.finish()
        return tree

    def _tree(self, chains: list[OneChain], attributes: dict[str, str]) -> xr.DataTree:
        posterior = posterior_of(chains, self.structure, self.release.frame)
        cells, found = cells_of(chains, self.structure, self.plan)
        diagnostics = diagnostics_of(posterior, chains, found, self.target, self.plan)
        del found
        tree = xr.DataTree.from_dict({"posterior": posterior, "cells": cells, "diagnostics": diagnostics})
        tree.attrs.update({name: own for name, own in attributes.items() if name != "release"})
        tree.attrs["sampler"] = json.dumps(
            {name: getattr(self.plan, name) for name in ("draws", "tune", "chains", "thin")}
        )
        compress_draws(tree)
        add_releases_to(tree, [self.release], "")
        tree["fiber"] = xr.DataTree(limits_of(self.target, self.release, self.structure))
        add_group_labels(tree, self.release.frame)
        return tree
