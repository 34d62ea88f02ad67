"""What `test_short_disk_for_real` runs in a process of its own: `fit` and `calibrate` that sample, on a disk that is short.

``python -m tests.cli.short_disk_for_real FOLDER`` prints one line of JSON. One run in this process compiles what all
need; each other one is a process forked from it, of which files may have so many bytes only (EFBIG).
"""

import errno
import gc
import json
import os
import resource
import shutil
import sys
import warnings
from pathlib import Path

from bayesdp.cli import main
from bayesdp.inference import holds_draws
from bayesdp.inference.runs import journal as draws_module
from bayesdp.inference.runs import recorded
from bayesdp.storage import journal as journal_module
from tests.cli.conftest import IMPORT, MARGINS, NOISY, posterior
from tests.cli.test_calibrate import MODEL

QUICK = ("--draws", "60", "--tune", "10", "--chains", "2", "--cores", "1", "--quiet")
FIT = ("fit", "release.nc", *QUICK, "--seed", "1")
CALIBRATE = ("calibrate", "right.py", "--n", "3", "--draws", "60", "--tune", "10", "--quiet")
GROUPS = {"fit": ("posterior",), "calibrate": ("prior_sbc", "dispersion_sbc")}

RUNS = {
    # name: command, seconds between two states of the sampler, bytes that a file may have, files that the journal may have
    "fit, no room for more than the draws": (FIT, 5.0, 60_000, 999),
    "fit, no room for the output": (FIT, 5.0, 20_000, 999),
    "fit, no room for draws as they come": (FIT, 0.0, 10**9, 20),
    "fit, no room for either": (FIT, 0.0, 20_000, 20),
    "calibrate, no room for the output": (CALIBRATE, 5.0, 6_000, 999),
    "calibrate, no room for a record": (CALIBRATE, 5.0, 1_300, 999),
}


def forked(run, limit=None):
    """Status (negative: a signal) and standard error of a process of its own."""
    read, write = os.pipe()
    gc.freeze()  # what was there before is not searched for garbage while the child ends, which would take a second
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(write, 2)
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        sys.exit(run())  # to the very end of the interpreter
    os.close(write)
    with os.fdopen(read) as file:
        err = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), err


def same(command):
    """Whether a result is that of a run with room."""
    ours, whole = posterior("out.nc"), posterior(f"{command}.nc")
    return all(ours[group].to_dataset().equals(whole[group].to_dataset()) for group in GROUPS[command])


def tried(command, seconds, limit, files):
    """A run without room, and the same once more with room."""
    for path in Path().glob("out.nc*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    arguments = [*command, "-o", "out.nc"]

    def full(file, arrays):
        if len(list(file.parent.glob("chain-*.npz"))) >= files:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        journal_module.write_arrays(file, arrays)

    def run():
        recorded.SECONDS = seconds
        if "--resume" not in arguments:
            draws_module.write_arrays = full
        return main(arguments)

    before = sorted(os.listdir())
    status, err = forked(run, limit)
    new = {name: Path(name).stat().st_size for name in sorted(os.listdir()) if name not in before}
    told = {"status": status, "err": err, "new": new, "kept": holds_draws("out.nc.partial")}
    if status == 2:
        if command[0] == "fit":
            arguments.append("--resume")
        status, err = forked(run)
        told |= {"again": status, "again_err": err, "left": sorted(set(os.listdir()) - set(before))}
    return told | {"same": same(command[0])}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # fork in a process with threads of linear algebra
    os.chdir(sys.argv[1])
    Path("temporary").mkdir()  # PyTensor leaves its sources there
    os.environ["TMPDIR"] = str(Path("temporary").resolve())
    for name, text in (("noisy.csv", NOISY), ("margins.csv", MARGINS), ("right.py", MODEL.replace("EPSILON", "1.0"))):
        Path(name).write_text(text)
    with open(os.devnull, "w") as nowhere:
        sys.stdout = nowhere
        assert main([*IMPORT, "release.nc", "--simulated"]) == 0
        assert main([*FIT, "-o", "fit.nc"]) in (0, 3)
        assert main([*CALIBRATE, "-o", "calibrate.nc"]) in (0, 4)
        sys.stdout = sys.__stdout__
    print(json.dumps({name: tried(*given) for name, given in RUNS.items()}))
