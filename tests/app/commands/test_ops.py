"""ridgeline ops: lists separated by spaces, images, and the same answer from Python and REST."""

import pytest
import ridgeline
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.rest import application
from genz_core.errors import InvalidValue
from tests.app.commands.test_chain import run

SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"


def test_numbers_of_queries_stand_between_spaces_as_between_commas():
    words = ("ops", "meta-llama/Llama-3.1-8B", "--json")
    commas = run(*words, "--cached-tokens", "1048576,1024", "--input-tokens", "1,1")
    spaces = ("--cached-tokens", "1048576", "1024", "--input-tokens", "1", "1")
    assert run(*words, *spaces) == commas
    assert run("ops", *spaces, "meta-llama/Llama-3.1-8B", "--json") == commas
    assert run(*words, "--cached-tokens", "1048576 1024") == commas


def test_an_image_brings_its_tokens_and_its_encoder():
    """672 x 672 pixels: 2 x 2 tiles and the whole image, each with 576 patches and a
    class token.
    """
    table = run(
        "ops", SCOUT, "--images", "1", "--image-size", "672x672", "--input-tokens", "128", "--json"
    )
    nodes = {row["node"]: row for row in table["rows"]}
    assert table["queries"] == [[0.0, 128.0 + 5 * 144 + 4 + 3]]
    fed = nodes["vision_down_proj"]
    assert fed["repeat"] == 34 and fed["flops"] >= 2 * 5 * 577 * 5632 * 1408
    text = run("ops", SCOUT, "--input-tokens", "855", "--json")
    own = [row for row in table["rows"] if not row["node"].startswith("vision_")]
    assert own == [row for row in text["rows"] if not row["node"].startswith("vision_")]


def test_a_step_with_images_is_piped_to_its_seconds():
    modules = run("modules", "populate", "-", given=run("arch", SCOUT, "--json"))
    ops = run("ops", "-", "--images", "1", "--input-tokens", "128", "--json", given=modules)
    alone = run("ops", SCOUT, "--images", "1", "--input-tokens", "128", "--json")
    assert ops["total"]["flops"] == pytest.approx(alone["total"]["flops"], rel=1e-9)
    words = ("estimate", "-", "--system", "h200", "--engine", "vllm", "--json")
    assert run(*words, given=ops)["step_s"] > 0.0


def test_python_and_rest_count_as_the_command_line_does():
    typed = run("ops", "gpt2", "--cached-tokens", "64", "32", "--tp", "2", "--json")
    assert ridgeline.ops("gpt2", cached_tokens=[64, 32], tp=2).to_dict() == typed
    with TestClient(application(answers=Answers())) as api:
        body = {"model": "gpt2", "cached_tokens": [64, 32], "tp": 2}
        assert api.post("/ops", json=body).json() == typed
        said = api.post("/ops", json={"model": "gpt2", "images": 1, "input_tokens": 8}).json()
    assert "has no image encoder that is described" in said["error"]["message"]


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(InvalidValue, match="a query of one new token generates"):
        ridgeline.ops(SCOUT, images=1)
    with pytest.raises(InvalidValue, match="ops counts from a config"):
        ridgeline.ops(ridgeline.model("gpt2"))
    with pytest.raises(InvalidValue, match="cached_tokens = 'a'"):
        ridgeline.ops("gpt2", cached_tokens="a")
