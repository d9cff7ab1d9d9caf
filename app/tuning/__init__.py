"""The settings of a real server: proposed by prediction, measured, learned from, proposed again.

space            the settings of a question, each with its predicted figures and intervals
learning         what runs so far say of the settings that were not run
choosing         which setting is run next, and when to stop
outcome          what one run came to
study            the folder of a search: every run a file, taken up where it stopped
loop             propose, run, learn, until nothing within reach is better
template         commands of the user's with the settings filled in
real_server      a server that is started, loaded by a client and ended
simulated_server the simulator in its place
report           what was tried and why, in rows and words
run_points       the runs as a points file, which `ridgeline calibrate runs` takes
"""
