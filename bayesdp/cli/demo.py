"""``bayesdp demo``: two real tables from release to posterior, with an HTML report for each.

The first goes the way of the main user, from published files on the command line. The second plays the agency and the
analyst in Python, with a worked model of the folder ``models/``, which an installed package has beside this file.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from importlib.resources import files
from pathlib import Path
from typing import Any

from bayesdp.cli.arguments import add_command
from bayesdp.cli.errors import interrupt_status, say
from bayesdp.cli.files import load_file

_HERE = Path(__file__).resolve()
_MODELS = next((f for f in (_HERE.with_name("models"), _HERE.parents[2] / "models") if f.is_dir()), _HERE.parent)
"""Where the worked models are: wheels have that of the demonstration here (see ``pyproject.toml``), a clone at its root."""

_TEXT = """\
1. Admissions to the University of California, Berkeley: from published files, by commands that are shown.
2. The 102 counties of Illinois, whose total is exact: release and model in Python, with a hierarchical prior.
Nothing is downloaded. The first run takes longer than others: numba compiles.
"""

_PUBLISHED = ("admissions_noisy.csv", "admissions_exact.csv", "METHODS.md")
"""What an agency would publish of the Berkeley table; ``bayesdp/datasets/published`` has the files."""


def _publish(folder: Path) -> None:
    """Put the published files where the user can repeat the commands."""
    from bayesdp.storage import write_text

    shipped = files("bayesdp.datasets").joinpath("published")
    for name in _PUBLISHED:
        write_text(folder / name, shipped.joinpath(name).read_text(encoding="utf-8"), overwrite=True)


def _command(*arguments: str) -> None:
    """Show a command as a user would type it, and run it."""
    from bayesdp.cli import main

    print("\n$ bayesdp " + " ".join(f"'{a}'" if " " in a else a for a in arguments), flush=True)
    status = main(arguments)
    if status:
        raise SystemExit(status)


def _published_files(folder: Path, draws: int) -> Path:
    print("=== 1. From published files: UC Berkeley admissions, sex by admission by department ===")
    _publish(folder)
    print(f"What was published is in {folder}: {', '.join(_PUBLISHED)}. No other file is read.")
    release, posterior, report = (str(folder / name) for name in ("release.nc", "posterior.nc", "report.html"))
    noisy, exact = (str(folder / name) for name in _PUBLISHED[:2])
    law = "discrete-gaussian sigma=8"  # from METHODS.md
    _command("import", noisy, "--exact", exact, "--law", law, "--simulated", "-o", release, "--force")
    _command("fit", release, "--prior", "log-linear", "--draws", str(draws), "--seed", "1", "-o", posterior, "--force")
    _command("summary", posterior)
    _command("summary", posterior, "--query", "margins:sex*admission")
    _command("report", posterior, "-o", report, "--force")
    return folder / "report.html"


def _extremes(posterior: Any, truth: Any, count: int = 4) -> str:
    """The smallest and the largest cells as text: published value, posterior, truth."""
    import bayesdp as bdp

    table = bdp.summary(posterior, "x").droplevel("part").assign(truth=truth.values.reshape(-1)).sort_values("mean")
    shown = table.iloc[[*range(count), *range(-count, 0)]]
    return shown[["published", "mean", "eti95_lower", "eti95_upper", "truth"]].round(1).to_string(index_names=False)


def _in_python(folder: Path, draws: int) -> Path:
    import bayesdp as bdp
    from bayesdp.report import report

    print("\n=== 2. In Python: the 102 counties of Illinois, their total exact ===")
    lesson: Any = load_file(str(_MODELS / "county_populations.py"))
    release = lesson.make_release()
    print(f"{release}\n\n{release.guarantee}\n\nSampling 4 chains (models/county_populations.py) ...", flush=True)
    shown, cores = sys.stderr.isatty(), min(4, os.cpu_count() or 1)
    sampling: dict[str, Any] = {"draws": draws, "chains": 4, "cores": cores, "random_seed": 1, "nuts_sampler": "pymc"}
    with lesson.build_model(release), warnings.catch_warnings():
        # NUTS overflows on its first trial steps from a distant start, and rejects them.
        warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning)
        posterior = bdp.sample(**sampling, progressbar=shown, quiet=not shown)
    truth = bdp.datasets.illinois_counties()
    print(posterior["diagnostics"].attrs["message"])
    print(f"\nThe smallest and the largest counties:\n{_extremes(posterior, truth)}")
    page = folder / "report.html"
    report(posterior, page, truth=truth, overwrite=True)
    return page


def add(commands: Any) -> None:
    """Add the subcommand to the command line."""
    parser = add_command(
        commands,
        "demo",
        run,
        title="take two real tables from release to posterior, with an HTML report for each",
        text=_TEXT,
        example="bayesdp demo --output demo-output",
    )
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for files and reports")
    parser.add_argument("--draws", type=int, default=1000, help="draws a chain (default: 1000)")


def run(args: argparse.Namespace) -> int:
    """Run the demonstration; 0, or 130, 143 or 129 if Ctrl-C, SIGTERM or SIGHUP has ended it."""
    began = time.monotonic()
    pages = []
    try:
        for name, part in (("berkeley", _published_files), ("illinois", _in_python)):
            folder = args.output / name
            folder.mkdir(parents=True, exist_ok=True)
            pages.append(part(folder, args.draws))
    except KeyboardInterrupt:
        say(f"interrupted: {args.output} has what was written so far")
        return interrupt_status()
    print(f"\nDone in {time.monotonic() - began:.0f} s. Open these in a browser:")
    for page in pages:
        print(f"  {page.resolve()}")
    return 0
