"""The command line: `python -m ridgeline`."""

import ridgeline

if __name__ == "__main__":
    ridgeline.main()
