"""Keys of a config that its class ignores, fills in, or reads without declaring them."""

import pytest

from model_registry.finding.catalog import shipped_models
from model_registry.tracing import config_keys, trace
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers")


def test_keys_that_the_class_ignores_or_fills_in_are_told() -> None:
    model = trace({**tiny("llama"), "moonbeams": 7})
    assert "moonbeams" in model.program.ignored
    assert "rms_norm_eps" in model.program.defaulted
    assert "keys of the config that the class ignores: moonbeams" in model.notes


def test_a_key_that_only_the_model_reads_is_not_called_ignored() -> None:
    # Qwen3MoeConfig does not declare head_dim, but its attention reads it.
    wide = trace({**tiny("qwen3_moe"), "head_dim": 32})
    assert wide.parameters > trace(tiny("qwen3_moe")).parameters
    assert "head_dim" not in wide.program.ignored


def test_the_one_key_that_a_class_reads_is_found_among_many_in_few_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # BloomConfig accepts n_embed for hidden_size without declaring it.
    readings: list[str] = []
    matters = config_keys._matters
    monkeypatch.setattr(
        config_keys, "_matters", lambda *given: readings.append("") or matters(*given)
    )
    strange = {f"key_{at}": at for at in range(256)}
    given = {**strange, "n_embed": 128}
    import transformers

    ignored, _ = config_keys.key_report(given, transformers.BloomConfig(**given))
    assert set(ignored) == set(strange)
    assert len(readings) < 20


def test_keys_of_a_text_model_that_stands_alone_are_read_as_its_own() -> None:
    config = {**shipped_models()["stepfun-ai/Step-3.7-Flash"].config(), "moonbeams": 7}
    text = {**config.pop("text_config", {}), **config}
    ignored = trace(text).program.ignored
    assert "moonbeams" in ignored and "hidden_size" not in ignored
