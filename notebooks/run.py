"""Run the notebooks of this folder from top to bottom, and optionally store their outputs.

``python notebooks/run.py`` runs all of them and stores nothing. With ``--twice`` each is run twice, and
must print the same text both times. With ``--store`` the outputs are written into the files. Settings
such as ``BAYESDP_QUICK=1`` pass to the notebooks through the environment.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

__all__ = ["execute", "main", "printed"]

FOLDER = Path(__file__).resolve().parent


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in a fresh kernel of this interpreter, in the notebook's own folder.

    Raises
    ------
    CellExecutionError
        If a cell raises; the message shows the cell and the traceback.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        record_timing=False,  # clock times would make every stored run differ
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()
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


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    parser = argparse.ArgumentParser(description="Run notebooks from top to bottom.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="notebooks to run (default: all of this folder)")
    parser.add_argument("--twice", action="store_true", help="run each twice and compare what it prints")
    parser.add_argument("--store", action="store_true", help="write the outputs into the notebooks")
    options = parser.parse_args(arguments)
    paths = options.notebooks or sorted(FOLDER.glob("*.ipynb"))
    if not paths:
        print(f"no notebooks in {FOLDER}", file=sys.stderr)
        return 1
    failed = False
    for path in paths:
        start = time.monotonic()
        try:
            notebook = execute(path)
            same = not options.twice or printed(execute(path)) == printed(notebook)
        except CellExecutionError as error:
            print(f"{path.name}: failed\n{error}", file=sys.stderr)
            failed = True
            continue
        if not same:
            print(f"{path.name}: two runs printed different text; fix the seeds", file=sys.stderr)
            failed = True
            continue
        if options.store:
            nbformat.write(notebook, path)
        print(f"{path.name}: ok, {time.monotonic() - start:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
