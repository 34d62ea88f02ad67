"""The worked models build, sample on the fiber, and say whom they are about."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.cli import demo
from bayesdp.tables import read_margins, read_table

MODELS = Path(__file__).resolve().parents[2] / "models"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, MODELS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PUBLISHED = {"electorates", "working_population"}
"""Models of tables that an office published: there is nothing to simulate; they are tested in files of their own."""


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.py") if path.stem not in PUBLISHED))
def test_every_model_is_a_lesson(name):
    module = load(name)
    assert module.__doc__
    release = module.make_release()
    assert release.simulated
    assert not module.make_release(seed=None).simulated
    assert isinstance(module.build_model(release), pm.Model)


@pytest.mark.system
def test_delinquent_children_keeps_both_margins():
    lesson = load("delinquent_children")
    release = lesson.make_release()
    with lesson.build_model(release):
        tree = bdp.sample(
            draws=50,
            tune=100,
            chains=2,
            cores=1,
            random_seed=1,
            nuts_sampler="pymc",
            progressbar=False,
            quiet=True,
            compute_convergence_checks=False,
        )
    table = bdp.datasets.delinquent_children()
    margins = bdp.Margins(table, ["county"], ["education"])
    assert np.all(margins.apply(tree.posterior["x"]) == margins.apply(table))
    assert {"release", "guarantee", "fiber", "diagnostics"} <= set(tree.children)
    assert not bool(tree["fiber"]["determined"].any())


def test_the_demo_starts_from_published_files_with_the_margins_of_the_data(tmp_path):
    demo._publish(tmp_path)
    noisy = read_table(tmp_path / "admissions_noisy.csv")
    table = bdp.datasets.berkeley_admissions()
    parts = read_margins(tmp_path / "admissions_exact.csv", noisy)
    assert all(np.array_equal(part.query.apply(table.values), part.values) for part in parts)
    assert len(parts) == 2
    # METHODS.md states how the noise was drawn.
    noise = bdp.noise.DiscreteGaussian(8).draw(np.random.default_rng(1973), (2, 2, 6))
    assert np.array_equal(noisy.values, table.values + noise)
    assert "default_rng(1973)" in (tmp_path / "METHODS.md").read_text(encoding="utf-8")
