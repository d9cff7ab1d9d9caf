"""Names and colours of what charts show, for interactive figures and for drawings in reports."""

from pathlib import Path

from hardware_db import yaml_document

LOOKS = yaml_document.read(Path(__file__).with_name("looks.yaml"))
