"""Simulation-based calibration of models with releases: ranks, coverage, and many fits on one machine or a cluster."""

from bayesdp.calibration.coverage import coverage
from bayesdp.calibration.designs import Design, design
from bayesdp.calibration.fits import Fits, fit_many
from bayesdp.calibration.joint import JointTest, joint_distribution_test
from bayesdp.calibration.quantities import Simulated
from bayesdp.calibration.study import sbc, verdict_of
from bayesdp.calibration.verdict import Power, QuantityVerdict, Verdict, power

__all__ = [
    "Design", "Fits", "JointTest", "Power", "QuantityVerdict", "Simulated", "Verdict", "coverage", "design", "fit_many",
    "joint_distribution_test", "power", "sbc", "verdict_of",
]  # fmt: skip
