"""Files of a model on the Hugging Face hub, from its cache or over the network.

Only a `HubModel` leads here, which the command line and a button make of an address
("hf:owner/name"): a name, however it is spelled, opens no connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from genz_core.errors import InvalidValue, UnknownModel

_ADDRESS = re.compile(r"(?:hf:|https?://(?:www\.)?huggingface\.co/|hf\.co/)(?P<id>.+?)/?")
_PART = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model's repository on the hub.  id: "owner/name", as the hub spells repositories.

    Raises:
        InvalidValue: no repository can have that id.
    """

    id: str

    def __post_init__(self) -> None:
        parts = self.id.split("/")
        spelled = len(parts) == 2 and all(map(_PART.fullmatch, parts))
        if not spelled or ".." in self.id or "--" in self.id or self.id.endswith(".git"):
            raise InvalidValue(
                f"{self.id[:100]!r} is no repository of the hub; write hf:owner/name, as on "
                "huggingface.co"
            )


def hub_model(text: str) -> HubModel | None:
    """The repository that an address names; None where `text` is no address of the hub.

    Raises:
        InvalidValue: an address without an owner and a name that the hub allows.
    """
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        return None
    return HubModel(re.split(r"/(?:tree|blob|resolve)/", match["id"])[0])


def fetch(model: HubModel, file: str = "config.json") -> Path | None:
    """The path of a model's file in the hub's cache, downloaded first where it is not there.

    Returns None if the model has no such file.

    Raises:
        UnknownModel: nothing of that name, no network, or no package to ask the hub with.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    except ImportError:
        raise UnknownModel(
            "hub model",
            model.id,
            hint="Install the extra 'profile' to ask the hub, or paste its config.json",
        ) from None
    try:
        return Path(hf_hub_download(model.id, file, etag_timeout=5))
    except LocalEntryNotFoundError:
        if file != "config.json":
            return None
        hint = "The hub cannot be reached and its config.json is not in the cache; paste it instead"
        raise UnknownModel("hub model", model.id, hint=hint) from None
    except EntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise UnknownModel("hub model", model.id, hint=f"The hub says: {message}") from None
