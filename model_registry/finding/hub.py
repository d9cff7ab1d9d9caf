"""Files of a model on the Hugging Face hub, from its cache or over the network.

Only a `HubModel` leads here, which the command line and a button make of an address
("hf:owner/name"): a name, however it is spelled, opens no connection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from genz_core.errors import InvalidValue, UnknownModel

_ADDRESS = re.compile(r"^(?:hf:|https?://(?:www\.)?huggingface\.co/|hf\.co/)(?P<id>.+?)/?$")
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_ID = re.compile(rf"(?!.*(\.\.|--|\.git$)){_PART}/{_PART}")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model's repository on the hub, as a source that may be asked for.

    id: "owner/name", as the hub spells repositories.

    Raises:
        InvalidValue: no repository can have that id.
    """

    id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InvalidValue(f"{self.id[:200]!r} is no hub address; write hf:owner/name")


def hub_model(text: str) -> HubModel | None:
    """The repository that an address names; None where `text` is no address of the hub.

    Raises:
        InvalidValue: an address without an owner and a name that the hub allows.
    """
    name = hub_id(text)
    return None if name is None else HubModel(name)


def hub_id(source: str) -> str | None:
    """The "owner/name" that a hub address names; None where `source` is no hub address.

    Raises:
        InvalidValue: an address without an owner and a name.
    """
    match = _ADDRESS.match(source.strip())
    if match is None:
        return None
    name = re.split(r"/(?:tree|blob|resolve)/", match["id"])[0]
    if not _ID.fullmatch(name):
        raise InvalidValue(f"{source[:200]!r} is no hub address; write hf:owner/name")
    return name


def fetch(name: str, file: str = "config.json") -> Path | None:
    """The path of a model's file in the hub's cache, downloaded first where it is not there.

    name: "owner/name".  Returns None if the model has no such file.

    Raises:
        UnknownModel: nothing of that name, no network, or no package to ask the hub with.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    except ImportError:
        raise UnknownModel(
            "hub model",
            name,
            hint="Install the extra 'profile' to ask the hub, or paste its config.json",
        ) from None
    try:
        return Path(hf_hub_download(name, file, etag_timeout=5))
    except LocalEntryNotFoundError:
        if file != "config.json":
            return None
        hint = "The hub cannot be reached and its config.json is not in the cache; paste it instead"
        raise UnknownModel("hub model", name, hint=hint) from None
    except EntryNotFoundError:
        return None
    except (OSError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise UnknownModel("hub model", name, hint=f"The hub says: {message}") from None
