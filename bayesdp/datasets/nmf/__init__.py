"""Noisy measurement files of the 2020 Census: read as releases, and written from tables that are known.

- `read_nmf` reads the published layout; what it does not use it says (`MeasurementFile.unused`);
- `write_synthetic_nmf` writes the same layout from known truth, with the published noise allocation (`sigma_squared`);
- `published_codes` and `code_query` name sums of cells as the published tables do (``P1_003N``).
"""

from bayesdp.datasets.nmf.measurements import Unused
from bayesdp.datasets.nmf.products import code_query, published_codes, sigma_squared
from bayesdp.datasets.nmf.reader import MeasurementFile, read_nmf
from bayesdp.datasets.nmf.spine import Codes
from bayesdp.datasets.nmf.writer import synthetic_spine, write_synthetic_nmf

__all__ = [
    "Codes", "MeasurementFile", "Unused", "code_query", "published_codes", "read_nmf", "sigma_squared",
    "synthetic_spine", "write_synthetic_nmf",
]  # fmt: skip
