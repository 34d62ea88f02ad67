"""Chains side by side in threads: the kernels leave the interpreter free while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from bayesdp._interrupts import handled, tell
from bayesdp.streaming.one_chain import OneChain

__all__ = ["longest_together", "run_all"]

_SECONDS = 0.2
"""How often progress is looked at."""

FEWEST = 4
"""Draws of a chain below which it is not worth keeping."""


def run_all(
    chains: Sequence[OneChain],
    cores: int,
    told: Callable[[int, int], None] | None,
) -> bool:
    """Run chains, at most `cores` at a time."""
    # An error in one ends the others, and is raised. Ctrl-C ends all between two sweeps. `told`: called now and then with the
    # number of sweeps and draws that are done, and with their number in all. Returns whether there was an interrupt that ended it
    # early, with draws to keep. KeyboardInterrupt if Ctrl-C was pressed before there were draws to keep.
    pressed: list[int] = []

    def note(number: int) -> None:
        pressed.append(number)
        if len(pressed) == 1:
            tell("interrupted: stopping after this sweep, keeping what was drawn")

    failed: list[bool] = []

    def stopped() -> bool:
        return bool(pressed or failed)

    def run(chain: OneChain) -> None:
        chain.run(stopped)

    total = sum(chain.plan.tune + chain.plan.draws for chain in chains)
    with handled(note), ThreadPoolExecutor(cores, "bayesdp chain") as pool:
        running = {pool.submit(run, chain) for chain in chains}
        left = set(running)
        try:
            while left:
                over, left = wait(left, _SECONDS, FIRST_EXCEPTION)
                if any(one.exception() is not None for one in over):
                    failed.append(True)
                if told is not None:
                    told(sum(chain.done for chain in chains), total)
        except (
            BaseException
        ):  # an interrupt that we were not asked about, outside of the main thread or with a handler of the user's
            failed.append(True)
            raise
    for one in running:
        one.result()
    early = bool(pressed) and any(chain.draws < chain.plan.draws for chain in chains)
    if early and max(chain.draws for chain in chains) < FEWEST:
        raise KeyboardInterrupt
    return early


def longest_together(chains: Sequence[OneChain]) -> list[OneChain]:
    """The chains that make the most draws when all are cut to the shortest of them: all, unless a run ended early."""
    by_length = sorted(chains, key=lambda chain: -chain.draws)
    sizes = [(i + 1) * chain.draws for i, chain in enumerate(by_length)]
    chosen = by_length[: sizes.index(max(sizes)) + 1]
    return sorted(chosen, key=lambda chain: chain.number)
