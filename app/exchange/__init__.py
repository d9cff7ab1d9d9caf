"""Files of network simulators: a step's operators and a system's links, written and read."""
