"""`ridgeline models add`: the file of a new model keeps the keys that shape its graph,
and loads.
"""

import json

import model_registry
from model_registry.finding.contribution import contribution

CONFIG = {
    "_name_or_path": "someone/new-8B",
    "model_type": "qwen3",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
    "transformers_version": "4.51.0",
}


def test_the_file_keeps_what_shapes_the_graph_and_loads_to_the_same_model(tmp_path):
    new = contribution(CONFIG)
    kept = json.loads(new.text)
    assert new.file == "someone--new-8B.json" and kept["_id"] == "someone/new-8B"
    assert not {"initializer_range", "transformers_version"} & set(kept)
    assert kept["_confirmed"] is False and kept["_source"]
    path = tmp_path / new.file
    path.write_text(new.text)
    assert model_registry.load(path).parameters == new.parameters
    assert model_registry.load(CONFIG).parameters == new.parameters


def test_a_text_model_inside_another_is_kept_nested():
    outer = {"model_type": "qwen3", "_name_or_path": "x", "text_config": CONFIG}
    kept = json.loads(contribution(outer).text)
    assert kept["text_config"]["hidden_size"] == 512
    assert "initializer_range" not in kept["text_config"]


def test_what_ships_already_is_said():
    assert "Qwen/Qwen3-8B is already shipped" in contribution("Qwen/Qwen3-8B").remarks
