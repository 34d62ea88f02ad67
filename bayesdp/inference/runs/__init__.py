"""Runs of ``pm.sample`` that report, end and go on as they should.

From bottom to top: what identifies a run (`fingerprint`); a step method that hands over its draws and its state (`recorded`); the
file that keeps them (`journal`); and the run itself, with its processes and lines of progress (`running`).
"""
