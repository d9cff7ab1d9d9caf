"""Files that network simulators read: a step's operators and a system's links, both ways."""
