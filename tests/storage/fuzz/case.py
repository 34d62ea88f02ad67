"""One case: its file, made from the seed and its number alone; its reader, in a process of its own; the verdict."""

import os
import shutil
from dataclasses import replace
from functools import partial

import numpy as np

from tests.storage.fuzz.child import in_child, peak_megabytes, processor_seconds
from tests.storage.fuzz.mutate import mutate
from tests.storage.fuzz.outcome import CPU_SECONDS, ENDED, MEGABYTES, Outcome, check_refusal, sort_of
from tests.storage.fuzz.targets import KNOWN, TARGETS
from tests.storage.fuzz.watch import Watch, listing

_LARGEST = 2**20  # the promise is about files below a megabyte; larger ones are not tried


def run_case(number, seed, shelf, home):
    rng = np.random.default_rng([seed, number])
    known = KNOWN[number] if number < len(KNOWN) else None
    target = target_of(number, rng)
    chosen = target.specimens[int(rng.integers(0, len(target.specimens)))]
    specimen = shelf / (chosen if known is None else known.specimen)
    for own in ("input", "elsewhere", "output", "cwd"):
        (home / own).mkdir(parents=True)
    path = home / "input" / specimen.name
    shutil.copytree(specimen, path) if specimen.is_dir() else shutil.copyfile(specimen, path)
    (home / "elsewhere" / "canary.csv").write_text("county,value\nAlpha,1\n")
    if known is None:
        made = in_child(lambda tell, _: tell({"how": mutate(rng, path, shelf)})).told  # HDF5 may crash
        how = made[0]["how"] if made else ""  # a second change of what the first one has left may fail
    else:
        known.change(path)
        how = f"known: {known.name}"
    size = sum(own.stat().st_size for own in ([path, *path.rglob("*")]) if own.is_file() and not own.is_symlink())
    outcome = Outcome(number, target.name, how, "unmade", size=size)
    if how and size <= _LARGEST:
        outcome = judged(number, target, how, size, path, home)
    if outcome.verdict != "defect":
        shutil.rmtree(home)
    return outcome


def target_of(number, rng):
    """The target of a case: of a known one its own, of the next ones each in turn, then at random."""
    if number < len(KNOWN):
        return next(own for own in TARGETS if own.name == KNOWN[number].target)
    if number < len(KNOWN) + len(TARGETS):
        return TARGETS[number - len(KNOWN)]
    weights = np.array([own.weight for own in TARGETS])
    return TARGETS[rng.choice(len(TARGETS), p=weights / weights.sum())]


def judged(number, target, how, size, path, home):
    before = listing(home / "input")
    for _ in range(2):  # a function may have been compiled, which is cached, or the machine may have been busy
        found = _outcome(number, target, how, size, in_child(partial(_read, target, path, home)))
        if found.sort not in ("time", "hung"):
            break
        shutil.rmtree(home / "output")
        (home / "output").mkdir()
    if found.verdict == "defect":
        return found
    after = listing(home / "input")
    changed = [name for name in before if before[name] != after.get(name)]
    written = [name for own in ("elsewhere", "cwd") for name in listing(home / own) if name != "canary.csv"]
    if written or (after != before and not target.goes_on):
        return _defect(found, "wrote elsewhere" if written else "changed its file", f"{written or changed}")
    if changed and found.verdict == "refused":
        return _defect(found, "changed a journal that it refused", found.message)
    return found


def _defect(found, sort, message):
    return replace(found, verdict="defect", sort=sort, message=message)


def _outcome(number, target, how, size, ended):
    last = {"verdict": "defect", "sort": "ended without a word", "seconds": ended.seconds, "megabytes": ended.megabytes}
    for own in ended.told:
        last |= own
    found = Outcome(number, target.name, how, size=size, **last)
    took = f"{found.seconds:.1f} s and {found.megabytes:.0f} MB; {found.message:.200}"
    most = ENDED if found.verdict == "refused" and "s of a processor" in found.message else CPU_SECONDS
    for wrong, sort in (
        (ended.hung, "hung"),
        (found.seconds > (target.cpu_seconds or most), "time"),
        (ended.signal, f"signal {ended.signal}"),
        (found.megabytes > MEGABYTES and target.cpu_seconds is None, "memory"),
    ):
        if wrong:
            return _defect(found, sort, took)
    return found


def _read(target, path, home, tell, start):
    """What the child does: read, say how that went, and look at what was accepted."""
    os.chdir(home / "cwd")
    watch = Watch(home / "output", *([path] if target.goes_on else []))
    before, value, verdict, sort, message = processor_seconds(), None, "accepted", "", ""
    try:
        value = target.read(path)
    except (ValueError, OSError) as error:
        verdict, (sort, message) = "refused", _caught(partial(check_refusal, error, path), str(error))
    except BaseException as error:  # whatever it is, it is told
        sort, message = sort_of(error), str(error)
    seconds, megabytes = processor_seconds() - before, peak_megabytes(start)
    tell({"verdict": verdict, "sort": sort, "message": message[:1000], "seconds": seconds, "megabytes": megabytes})
    if value is not None and not sort:
        sort, message = _caught(lambda: target.check(value, lambda: target.read(path), home / "output"), "")
    if not sort and watch.seen:
        sort, message = "did more than reading", "; ".join(watch.seen)
    if not sort and watch.odd_modules():
        sort, message = "imported an odd module", ", ".join(watch.odd_modules())
    tell({"verdict": "defect" if sort else verdict, "sort": sort, "message": message[:1000]})


def _caught(check, message):
    """The class of what a check raises, and its words; no class and the message as it was where it raises nothing."""
    try:
        check()
    except BaseException as error:  # whatever it is, it is told
        return sort_of(error), str(error)
    return "", message
