"""The run of a form: from a name or a hub model's config; files and weights are refused."""

from pathlib import Path

import pytest

from app.measuring.outcome import settings_of
from app.measuring.run_form import run_of_form
from genz_core.errors import InvalidValue, UnknownModel
from tests.model_registry.finding.conftest import CONFIG


def test_a_hub_model_is_measured_with_random_weights_from_the_config_in_the_cache(
    offline_cache: Path,
):
    settings = settings_of(run_of_form(["model=hf:someone/tiny"]))
    assert settings.config == {**CONFIG, "_id": "someone/tiny"}


def test_a_hub_model_that_is_not_cached_takes_the_hubs_sentence(offline_cache: Path):
    with pytest.raises(UnknownModel, match="paste it instead"):
        run_of_form(["model=hf:someone/else"])


@pytest.mark.parametrize("model", ["hf:someone/tiny", "gpt2"])
def test_a_form_fetches_no_weights(offline_cache: Path, model: str):
    with pytest.raises(InvalidValue, match="ridgeline runs start"):
        run_of_form([f"model={model}", "model.checkpoint=true"])


def test_a_form_opens_no_file_of_the_server():
    with pytest.raises(InvalidValue, match="a file of the server"):
        run_of_form(["model=gpt2", "path=/etc/passwd"])
