"""Which files of this folder are no tests."""

collect_ignore = [
    "outside_law.py"
]  # imported by its own test only: it registers a law, which other tests must not meet
