"""Run the notebooks of this folder from top to bottom, and optionally store their outputs.

``python notebooks/run.py`` runs all of them and stores nothing. With ``--twice`` each is run twice, and
must print the same text both times. With ``--store`` the outputs are written into the files. ``--jobs 2``
runs two at a time. Settings such as ``BAYESDP_QUICK=1`` pass to the notebooks through the environment.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

__all__ = ["execute", "main", "printed", "run"]

FOLDER = Path(__file__).resolve().parent

FIRST = ("10", "08")
"""Notebooks that begin: they are among the longest, and compile different kernels, which those after them find."""

INTERPRETED = ("02", "03", "05", "06", "07", "09", "10")
"""Notebooks whose models are not compiled when draws are few (`BAYESDP_QUICK`): that takes longer than to evaluate them by Python."""


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in a fresh kernel of this interpreter, in the notebook's own folder.

    Raises
    ------
    CellExecutionError
        If a cell raises; the message shows the cell and the traceback.
    """
    try:
        return _executed(path)
    except RuntimeError as error:
        # Of two kernels that begin at the same time one can lose its port to the other, and die before any cell has run.
        if "Kernel died before replying" not in str(error):
            raise
        return _executed(path)


def _executed(path: Path) -> nbformat.NotebookNode:
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        record_timing=False,  # clock times would make every stored run differ
        resources={"metadata": {"path": str(path.parent)}},
    )
    environment = dict(os.environ)
    if os.environ.get("BAYESDP_QUICK"):
        # Without a C compiler, which takes a second for each constant of a graph, and without the stack of each of its nodes. What the
        # caller asks for comes later, and counts.
        mode = "mode=FAST_COMPILE," if path.name.startswith(INTERPRETED) else ""
        environment["PYTENSOR_FLAGS"] = f"cxx=,traceback__limit=0,{mode}{os.environ.get('PYTENSOR_FLAGS', '')}"
    client.execute(env=environment)
    return notebook


def printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Collect what the cells printed and returned as text, in order.

    What goes to stderr is left out: samplers report there how many seconds they took.
    """
    texts: list[str] = []
    for cell in notebook.cells:
        streamed, results = "", []  # a busy kernel sends what one cell prints in any number of pieces
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stdout":
                streamed += output.text
            elif output.output_type in ("execute_result", "display_data"):
                results.append(output.data.get("text/plain", ""))
        texts += [streamed, *results] if streamed else results
    return texts


def run(path: Path, *, twice: bool = False, store: bool = False) -> tuple[bool, str]:
    """Run one notebook; whether all is well, and what to say of it."""
    start = time.monotonic()
    try:
        notebook = execute(path)
        same = not twice or printed(execute(path)) == printed(notebook)
    except CellExecutionError as error:
        return False, f"{path.name}: failed\n{error}"
    if not same:
        return False, f"{path.name}: two runs printed different text; fix the seeds"
    if store:
        nbformat.write(notebook, path)
    return True, f"{path.name}: ok, {time.monotonic() - start:.0f} s"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Run notebooks from top to bottom.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="notebooks to run (default: all of this folder)")
    parser.add_argument("--twice", action="store_true", help="run each twice and compare what it prints")
    parser.add_argument("--store", action="store_true", help="write the outputs into the notebooks")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time, each in a process (default: 1)")
    options = parser.parse_args(arguments)
    paths = options.notebooks or sorted(
        FOLDER.glob("*.ipynb"), key=lambda path: (path.name.startswith(FIRST), path.name), reverse=True
    )
    if not paths:
        print(f"no notebooks in {FOLDER}", file=sys.stderr)
        return 1
    if options.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {options.jobs}")
    failed = False
    with ProcessPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run, path, twice=options.twice, store=options.store) for path in paths]
        for done in as_completed(runs):
            good, words = done.result()
            print(words, file=sys.stdout if good else sys.stderr, flush=True)
            failed |= not good
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
