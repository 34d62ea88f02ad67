"""Runs of ``pm.sample`` that report, end and go on as they should.

From bottom to top: what a run is asked for (`plan`) and what identifies it (`fingerprint`); processes of chains and
lines of progress; draws and states of step methods as bytes (`chunks`, `step_state`); the file that holds both
(`journal_file`), and the step method that hands them over (`recorded`); the journal of one run (`journal`); and the run
itself (`running`).
"""
