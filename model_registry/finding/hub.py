"""Files of a model on the Hugging Face hub, from its cache or over the network.

Only a `HubModel` leads to a connection; the command line and a button make one from an address
("hf:owner/name").  A name never opens a connection, however it is spelled.  The cache comes first:
a file in it is not requested again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal

from genz_core.common.installation import pip_install_extra
from genz_core.errors import InvalidValue, UnknownModel

#: Time limit for all files of a model together [s].
TIMEOUT_S = 5.0
_ADDRESS = re.compile(
    r"^(?:hf:|(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/)(?P<id>.+?)/?(?:[?#].*)?$",
    re.DOTALL,
)
_PART = r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?"
_ID = re.compile(rf"(?!.*(\.\.|--|\.git$)){_PART}/{_PART}")


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model's repository on the hub, as a source that may be downloaded.

    id: "owner/name", as the hub spells repositories.

    Raises:
        InvalidValue: an id that no repository can have.
    """

    id: str

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InvalidValue(f"{self.id[:200]!r} is not a hub address; write hf:owner/name")


def hub_model(text: str) -> HubModel | None:
    """The repository that an address names; None where `text` is not an address of the hub.

    Raises:
        InvalidValue: an address without an owner and a name that the hub allows.
    """
    name = hub_id(text)
    return None if name is None else HubModel(name)


def hub_id(source: str) -> str | None:
    """The "owner/name" that a hub address names; None where `source` is not a hub address.

    Raises:
        InvalidValue: an address without an owner and a name.
    """
    match = _ADDRESS.match(source.strip())
    if match is None:
        return None
    name = re.split(r"/(?:tree|blob|resolve|raw|commits?|discussions)(?:/|$)", match["id"])[0]
    if not _ID.fullmatch(name):
        raise InvalidValue(f"{source[:200]!r} is not a hub address; write hf:owner/name")
    return name


def fetch(name: str, *files: str) -> tuple[Path | None, ...]:
    """Paths of a model's files in the hub's cache; None for one that the model does not have.

    Files that the cache lacks are downloaded, within `TIMEOUT_S` for all files together.

    name: "owner/name".  files: the first must be there; the others may be missing.

    Raises:
        UnknownModel: nothing of that name, no network, or the package for the hub is not installed.
    """
    found = {file: cached(name, file) for file in files}
    unknown = [file for file, path in found.items() if path is None]
    if unknown:
        found |= _downloaded(name, unknown, needed=files[0])
    return tuple(path or None for path in found.values())


def cached(name: str, file: str) -> Path | Literal[False] | None:
    """The path of a model's file in the hub's cache, without any request.

    False: the cache knows that the model has no such file.  None: it has no information.
    """
    try:
        from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache
    except ImportError:
        return None
    path = try_to_load_from_cache(name, file)
    if path is _CACHED_NO_EXIST:
        return False
    return Path(path) if isinstance(path, str) else None


def _downloaded(name: str, files: Sequence[str], needed: str) -> dict[str, Path | None]:
    """Downloaded files of the hub: those that arrived in time.

    Raises:
        UnknownModel: `needed` is among the files and did not arrive.
    """
    arrived: dict[str, Path | None] = {}
    failure: list[UnknownModel] = []

    def ask() -> None:
        try:
            for file in files:
                arrived[file] = _download(name, file)
        except UnknownModel as error:
            failure.append(error)

    # A thread, because neither DNS look-ups nor retries respect a time limit.
    asking = Thread(target=ask, name="ask-the-hub", daemon=True)
    asking.start()
    asking.join(TIMEOUT_S)
    if needed in files and arrived.get(needed) is None:
        if failure:
            raise failure[0]
        late = f"The hub did not answer within {TIMEOUT_S:g} seconds; paste its config.json instead"
        hint = late if asking.is_alive() else f"It has no {needed}"
        raise UnknownModel("hub model", name, hint=hint)
    return {file: arrived.get(file) for file in files}


def _download(name: str, file: str) -> Path | None:
    """The path of a file after its download; None if the model has no such file.

    Raises:
        UnknownModel: as `fetch`.
    """
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
        from huggingface_hub.utils.logging import set_verbosity_error
    except ImportError:
        raise UnknownModel(
            "hub model",
            name,
            hint=f"To use the hub run: {pip_install_extra('hub')}; or paste its config.json",
        ) from None
    set_verbosity_error()  # its retry messages would be printed beside the one error
    try:
        return Path(hf_hub_download(name, file, etag_timeout=TIMEOUT_S))
    except LocalEntryNotFoundError:
        hint = f"The hub cannot be reached and its {file} is not in the cache; paste it instead"
        raise UnknownModel("hub model", name, hint=hint) from None
    except EntryNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - which HTTP library the hub's package uses varies
        message = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise UnknownModel("hub model", name, hint=f"The hub says: {message}") from None
