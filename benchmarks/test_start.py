"""`bayesdp fit` as a person feels it: the README's table, the second time on a machine, from the start of the process."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

import bayesdp as bdp

COMMAND = """
import os, sys, threading, time

def watch():
    while not hasattr(sys.modules.get("bayesdp.inference.runs.running"), "tells_of_draws"):
        time.sleep(0.01)
    callback = sys.modules["bayesdp.inference.runs.running"]._Callback
    called = callback.__call__

    def first(self, *arguments, **named):
        callback.__call__ = called
        print("FIRST", time.time(), sum(os.times()[:4]), file=sys.stderr, flush=True)
        return called(self, *arguments, **named)

    callback.__call__ = first

threading.Thread(target=watch, daemon=True).start()
from bayesdp.cli import main
sys.exit(main())
"""
"""The command line, which says when there is a first draw, and how much of processors it took."""


def fitted(folder: Path, prior: str) -> tuple[float, float, float, float]:
    """Seconds until the first draw and in all, by the clock and of processors."""
    options = ["release.nc", "--prior", prior, "--seed", "1", "--force", "-o", "posterior.nc"]
    command = [sys.executable, "-c", COMMAND, "fit", *options]
    env = {**os.environ, "PYTHONPATH": str(Path(bdp.__file__).parents[1])}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    ended, after = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 3), done.stderr
    first, cpu = map(float, done.stderr.partition("FIRST ")[2].split()[:2])
    return first - began, ended - began, cpu, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("prior", ["independent", "log-linear"])
def test_fit_of_the_readme(benchmark, enter, tmp_path, prior):
    labels = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    law = bdp.noise.DiscreteGaussian(sigma=3.0)
    noisy = bdp.Measured(bdp.Identity(labels), [[12, 5], [25, -3], [4, 11]], law)
    rows = bdp.Exact(bdp.Margins(labels, ["county"]), [18, 24, 13])
    bdp.Release.from_published(labels, measured=[noisy], exact=[rows]).to_netcdf(tmp_path / "release.nc")
    fitted(tmp_path, prior)  # compiles what is kept in files
    first, whole, first_cpu, whole_cpu = benchmark.pedantic(fitted, args=(tmp_path, prior), rounds=1, warmup_rounds=0)
    enter(f"bayesdp fit, README, {prior}: first draw", first, "s", at_most=5)
    enter(f"bayesdp fit, README, {prior}: all of 4 chains", whole, "s", at_most=8)
    enter(f"bayesdp fit, README, {prior}: first draw, processors", first_cpu, "s")
    enter(f"bayesdp fit, README, {prior}: all of 4 chains, processors", whole_cpu, "s")
