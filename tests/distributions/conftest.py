"""Which files of this folder are no tests: outside_law.py registers a law, which other tests must not meet."""

collect_ignore = ["outside_law.py"]
