"""Tune the settings of a real server: predict, measure, learn from the runs, and propose again.

space            the settings of a question, each with its predicted figures and intervals
learning         what the runs so far imply for settings that were not run
choosing         which setting to run next, and when to stop
outcome          the outcome of one run
study            the folder of a search: one file per run; a search continues where it stopped
loop             propose, run and learn until no setting may be clearly better
template         user commands with the settings filled in
real_server      a server that is started, loaded by a client and stopped
simulated_server the simulator in place of a server
report           what was tried and why, as rows and text
run_points       the runs as a points file, which `ridgeline calibrate runs` reads
"""
