"""The fuzzer: ``python -m tests.storage.fuzz.run --cases 20000 --seed 1``, or ``make fuzz CASES=20000 SEED=1``.

A process imports everything and reads every valid file once; each case is read in a fork of it, which costs no imports and harms
no other case. The file of a case depends on the seed and the number of the case only.
"""

import argparse
import gc
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import warnings
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pandas as pd

import conftest  # noqa: F401  # at the root: where compiled functions are cached
from tests.storage.fuzz.case import run_case
from tests.storage.fuzz.journals import prepare_journals
from tests.storage.fuzz.outcome import Defect, Refused
from tests.storage.fuzz.specimens import write_specimens
from tests.storage.fuzz.targets import TARGETS


def fuzz(cases, seed, folder):
    (shelf := folder / "shelf").mkdir(parents=True)
    write_specimens(shelf)
    prepare_journals(shelf)
    _warm_up(shelf, folder / "warm")
    # The one other thread is of a library's allocator, and holds no lock of Python.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.freeze()  # so that collecting garbage in a fork does not copy the memory of all modules
    given = [(number, seed, shelf, folder / f"case-{number}") for number in cases]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.starmap(run_case, given, chunksize=1)


def _warm_up(shelf, folder):
    """Read every valid file here: modules are imported and functions compiled, and all of them are accepted."""
    back = Path.cwd()
    for target in TARGETS:
        for i, specimen in enumerate(target.specimens):
            home = folder / f"{target.name}-{i}"
            for own in ("cwd", "output"):
                (home / own).mkdir(parents=True)
            os.chdir(home / "cwd")  # where the command line writes
            again = partial(target.read, shelf / specimen)
            try:
                target.check(again(), again, home / "output")
            except (ValueError, OSError, Defect) as error:
                if not isinstance(error, Refused) or "unknown" not in str(error):  # the hyperparameter of `bayesdp fit`
                    raise RuntimeError(f"{target.name} does not accept the valid {specimen}: {error}") from error
            finally:
                os.chdir(back)
    shutil.rmtree(folder)


def table(outcomes, folder):
    found = pd.DataFrame([asdict(own) for own in outcomes])
    most = found.groupby("target")[["seconds", "megabytes"]].max().round(2)
    lines = [pd.crosstab(found.target, found.verdict, margins=True).join(most).to_string()]
    for own in (own for own in outcomes if own.verdict == "defect"):
        lines += [f"{own.sort}: case {own.case}, {own.target}, {own.how:.300}", f"  {own.message!r:.400}"]
        lines += [f"Its file is in {folder}; once more: --case {own.case}, with the same seed."]
    return "\n".join(lines)


def main(argv=None):
    own = argparse.ArgumentParser(description="Mutated files of every kind, each read in a process of its own.")
    own.add_argument("--cases", type=int, default=300, help="how many (default: 300)")
    own.add_argument("--seed", type=int, default=0, help="of all of them (default: 0)")
    own.add_argument("--case", type=int, action="append", help="only the case of this number; may be repeated")
    own.add_argument("--folder", type=Path, help="a new folder for the files of defects (default: a temporary one)")
    own.add_argument("--json", type=Path, help="also write all outcomes to this file, one a line")
    args = own.parse_args(argv)
    folder = Path(tempfile.mkdtemp(prefix="bayesdp-fuzz-")) if args.folder is None else args.folder.resolve()
    outcomes = fuzz(args.case or range(args.cases), args.seed, folder)
    if args.json is not None:
        args.json.write_text("".join(json.dumps(asdict(own)) + "\n" for own in outcomes), encoding="utf-8")
    print(table(outcomes, str(folder)))
    if any(own.verdict == "defect" for own in outcomes):
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
