"""What a run will need is said before it, and is about what it takes."""

import tracemalloc

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp import noise
from bayesdp.inference import memory
from bayesdp.inference.memory import available_memory, check_memory, memory_needed
from tests.inference.oracle import noisy_cells

CELLS = 400
QUICK = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def made(cells):
    frame = {"cell": list(range(cells))}
    noisy = 7 + np.arange(cells) % 5  # around 9, and not all multiples of one number: that would be warned about
    published = noisy_cells(frame, noisy, noise.DiscreteLaplace(b=2.0), bdp.Exact(bdp.Totals(frame), 9 * cells))
    with pm.Model(coords=frame) as model:
        scale = pm.HalfNormal("scale", 5.0)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(8.0 + scale, shape=cells), dims="cell")
        pm.Deterministic("odd", x[::2].sum() + 0 * scale)
        bdp.observe(published, x)
    return model


@pytest.mark.slow
def test_the_estimate_bounds_what_a_run_takes_and_not_by_far():
    plan = {"draws": 120, "tune": 40}
    large = made(30_000)
    with large:
        bdp.sample(draws=10, tune=5, **QUICK)  # compiled before the memory is looked at
        tracemalloc.start()
        bdp.sample(**plan, **QUICK)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    needed = memory_needed(large, {"chains": 2, **plan})
    assert 0.4 * needed < peak < 1.1 * needed


def test_the_number_is_what_it_says_and_a_run_that_does_not_fit_is_refused_before_it_begins(monkeypatch):
    model = made(CELLS)
    # The table, the scale with its logarithm, and a function of them; all draws once, those that are kept twice more.
    held, kept = CELLS + 3, CELLS + 2
    plan = {"chains": 3, "draws": 50, "tune": 20}
    assert memory_needed(model, plan) == 8 * 3 * (70 * held + 2 * 50 * kept)
    assert memory_needed(model, {**plan, "var_names": ["odd"]}) == 8 * 3 * (70 + 2 * 50)
    assert memory_needed(model, {"chains": 1}) == 8 * (2000 * held + 2 * 1000 * kept)
    monkeypatch.setattr(memory, "available_memory", lambda: 1_000_000)
    words = r"\(and 100 before them\) need about 10.3 MB of memory, and 1.0 MB are available"
    with model:
        with pytest.raises(MemoryError, match=words):
            bdp.sample(draws=500, tune=100, **QUICK)
        # What it names works: fewer draws with more moves each; functions of the table; going on regardless.
        few = bdp.sample(draws=10, tune=5, fiber_gibbs={"sweeps": 8}, **QUICK)
        assert few.posterior.sizes["draw"] == 10
        functions = bdp.sample(draws=100, tune=5, var_names=["odd", "scale"], **QUICK)
        assert set(functions.posterior.data_vars) == {"odd", "scale"}
        assert {"release", "fiber", "diagnostics"} <= set(functions.children)
        assert functions["diagnostics"]["odd_rhat"].shape == ()
        monkeypatch.setattr(memory, "available_memory", lambda: 1)
        assert bdp.sample(draws=5, tune=5, memory_check=False, **QUICK).posterior.sizes["draw"] == 5
        check_memory(model, {"draws": 500, "trace": object()})  # a trace of one's own may be on disk


def files(root, contents):
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable:    4000 kB\nBuffers: 1 kB\n"}


def test_a_limit_of_a_control_group_of_version_2_or_1_or_none(tmp_path):
    assert available_memory(tmp_path) is None
    assert available_memory(files(tmp_path, MEMINFO)) == 4_096_000
    for path in ("user/job/", ""):
        group = f"sys/fs/cgroup/{path}memory."
        limits = {
            f"{group}max": "3000000\n",
            f"{group}current": "1000000\n",
            f"{group}stat": "anon 1\ninactive_file 500\n",
            "proc/self/cgroup": f"0::/{path.strip('/')}\n",
        }
        assert available_memory(files(tmp_path, limits)) == 2_000_500
        assert available_memory(files(tmp_path, {f"{group}max": "max\n"})) == 4_096_000
    # Of a group above, and of version 1.
    group = "sys/fs/cgroup/memory/outer/"
    limits = {
        f"{group}memory.limit_in_bytes": "2000000\n",
        f"{group}memory.usage_in_bytes": "1900000\n",
        f"{group}memory.stat": "total_inactive_file 50000\n",
        f"{group}inner/memory.limit_in_bytes": "9223372036854771712\n",
        f"{group}inner/memory.usage_in_bytes": "5\n",
        "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/outer/inner\n0::/\n",
    }
    assert available_memory(files(tmp_path, MEMINFO | limits)) == 150_000
    assert available_memory(files(tmp_path, {f"{group}memory.usage_in_bytes": "2100000\n"})) == 0
