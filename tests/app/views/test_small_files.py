"""Page Upload with files that are not measurements: the outcome of each is shown."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.pages import brought, opened

COUNTS = json.dumps({"counts": [[[3, 1, 2, 2]]]})
LOOK = '{"at": 0.0, "page": "vllm:num_requests_running 1"}\n'


def _files(folder: Path, **texts: str) -> list[Path]:
    made = []
    for name, text in texts.items():
        made.append(folder / name.replace("_", "."))
        made[-1].write_text(text)
    return made


def test_every_definition_says_what_came_of_it(tmp_path: Path):
    wrong = "id: my-{}\nname: Mine\ninclude: {}\n"
    files = _files(tmp_path, a_yaml=wrong.format("a", "no-such-chip"),
                   b_yaml=wrong.format("b", "neither-is-this"),
                   c_yaml=wrong.format("c", "h100-sxm5-80gb"))  # fmt: skip
    app = brought(opened("upload"), "upload_files", *files)
    assert not app.exception
    said = " ".join(error.value for error in app.error)
    assert "no-such-chip" in said and "neither-is-this" in said
    assert [kept.value for kept in app.success] == ["Kept for this session as my-c (yours)."]
    app.run()
    assert len(app.error) == 2 and len(app.success) == 1


def test_a_second_file_of_a_part_that_reads_one_is_said_to_be_left_out(tmp_path: Path):
    files = _files(tmp_path, one_json=COUNTS, two_json=COUNTS, a_jsonl=LOOK * 3, b_jsonl=LOOK * 3)
    app = brought(opened("upload"), "upload_files", *files)
    assert not app.exception and not app.error
    said = [caption.value for caption in app.caption]
    assert "Routed experts reads only one file, one.json; ignored: two.json." in said
    assert "Metrics over time reads only one file, a.jsonl; ignored: b.jsonl." in said
