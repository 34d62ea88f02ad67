"""`fit` and `calibrate` that sample, on a disk that is short: what was done is kept, and the same command goes on."""

import pytest

from tests.cli.conftest import IMPORT, MARGINS, NOISY, posterior
from tests.cli.kills import Job, done
from tests.cli.test_calibrate import MODEL

# tests/cli/test_short_disk.py tries all outputs, the sampling left out.
pytestmark = [pytest.mark.slow, pytest.mark.system]

FILES = {"noisy.csv": NOISY, "margins.csv": MARGINS, "right.py": MODEL.replace("EPSILON", "1.0")}
FIT = "fit release.nc --chains 2 --cores 1 --seed 1 --draws 60 --tune 10 --quiet -o".split()
CALIBRATE = "calibrate right.py --n 3 --draws 60 --tune 10 --quiet -o".split()
WARM_UP = [[*IMPORT, "release.nc", "--simulated"], [*FIT, "fit.nc"], [*CALIBRATE, "calibrate.nc"]]
RUNS = {  # bytes that a file may have, files that the journal may have, seconds between two states of the sampler
    "fit, no room for more than the draws": (60_000, 999, 5.0),
    "fit, no room for the output": (20_000, 999, 5.0),
    "fit, no room for either": (20_000, 20, 0.0),
    "calibrate, no room for the output": (6_000, 999, 5.0),
    "calibrate, no room for a record": (1_300, 999, 5.0),
    "fit, no room for draws as they come": (10**9, 20, 0.0),
}
GOES_ON = "with --resume the same command goes on"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """By name: its folder, what became of a run without room, and of the same command once more with room."""
    folder, jobs = tmp_path_factory.mktemp("short"), []
    for name, room in RUNS.items():
        command = [*(FIT if name.startswith("fit") else CALIBRATE), "out.nc"]
        again = [*command, "--resume"] if name.startswith("fit") else command
        jobs += [Job(command, name, "", "", *room), Job(again, name)]
    ended = [own for _, own in done(folder, FILES, WARM_UP, jobs)]
    return {name: (folder / name, *ended[2 * i : 2 * i + 2]) for i, name in enumerate(RUNS)}


def test_it_is_said_and_the_same_command_goes_on_to_the_same_result(runs):
    for name, (folder, first, again) in runs.items():
        ended_at_once = name == "fit, no room for draws as they come"  # nothing is left to do, which is said
        assert again.status in ((2,) if ended_at_once else (0, 3)), again
        whole, ours = posterior(folder / f"../{name.split(',')[0]}.nc"), posterior(folder / "out.nc")
        for group in ("posterior",) if name.startswith("fit") else ("prior_sbc", "dispersion_sbc"):
            assert ours[group].to_dataset().equals(whole[group].to_dataset())
        assert "Traceback" not in first.err + again.err
        if ended_at_once:
            continue
        assert first.status == 2, first
        assert "File too large" in first.err
        assert "out.nc" in first.err.splitlines()[-1]
        assert again.names == (["out.nc", "out.nc.chains"] if name.startswith("fit") else ["out.nc"])


def test_what_is_left_and_said_of_it(runs):
    """Draws without diagnostics can be completed; where they find no room but in the journal that is named; simulations are kept."""
    _, first, _ = runs["fit, no room for more than the draws"]
    assert first.names[:2] == ["out.nc", "out.nc.partial"]
    assert f"out.nc has the draws, and nothing that is computed from them; {GOES_ON}" in first.err
    for name in ("fit, no room for the output", "fit, no room for either"):
        _, first, _ = runs[name]
        assert first.names[0] == "out.nc.partial"
        assert len(first.names) > 1  # it holds draws
        assert f"the draws so far are in out.nc.partial: {GOES_ON}" in first.err
        assert "could not be kept elsewhere" in first.err
    assert "out.nc.partial: File too large" in first.err
    for name in ("calibrate, no room for the output", "calibrate, no room for a record"):
        assert runs[name][1].names == ["out.nc.partial.jsonl"]
        assert "goes on from there" in runs[name][1].err
    _, first, _ = runs["fit, no room for draws as they come"]  # drawing goes on where the journal is full
    assert first.status in (0, 3), first
    assert first.err.count("out.nc.partial: File too large. Sampling goes on; draws from here on are not kept") == 1
    assert "out.nc.partial" not in first.names
