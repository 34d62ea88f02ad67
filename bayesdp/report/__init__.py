"""A posterior as a page: one HTML file that a statistician can read, print, send and cite from.

The page is self-contained: pictures and tables are in it, it loads nothing from anywhere and runs no script. Labels come
from files, so everything that is not markup of ours is escaped (`bayesdp.report.html`).
"""

from bayesdp.report.page import calibration_report, report

__all__ = ["calibration_report", "report"]
