"""Exit codes of the command line, each with its meaning."""

from collections.abc import Mapping

#: A check failed, nothing could be served, the output was closed, or the program has a fault.
FAILED = 1
#: The command was refused with a sentence.
REFUSED = 2
#: Ctrl-C, by the shells' convention.
INTERRUPTED = 130
MEANINGS: Mapping[int, str] = {
    0: "The command is done. What cannot run has the reason in its `status`: rows of files and "
    "sweeps, and a configuration of `estimate` or `serve` that lacks memory or sustains less than "
    "the load. `watch`, `validate` and `doctor` end with 0 whatever they find.",
    FAILED: "`guard`: a figure is worse than expected. `simulate`: no request can be served. Any "
    "command: its output was closed before its end (`| head`), or an internal error, with a "
    "traceback.",
    REFUSED: "An unknown command, option, name or value, a file that cannot be read, or a "
    "configuration that cannot run and has no times: one sentence on standard error says which. A "
    "command that needs more words prints its help.",
    INTERRUPTED: "Ctrl-C ended the command. `sweep` and `simulate` with `--output` continue when "
    "run again.",
}
