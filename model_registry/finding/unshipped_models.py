"""Well-known names of models that do not ship, with the reason and an alternative."""

from __future__ import annotations

import re

#: (pattern of a name without its account, why it does not ship).
_REASONS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"rwkv-?7-?g\d\w*", re.I),
     "this repository holds checkpoints of several sizes and no config.json; name one size, "
     "such as fla-hub/rwkv7-2.9B-world or fla-hub/rwkv7-1.5B-world"),
    (re.compile(r"qwen3\.7\b.*", re.I),
     "no checkpoint of Qwen3.7 could be found, only its maker's service; Qwen3.6 and 3.8 ship"),
    (re.compile(r"(hy|hunyuan)-?2\.0\b.*", re.I),
     "no checkpoint of HY 2.0 could be found, only its maker's service; Hunyuan-Large and "
     "Hy3-preview ship"),
    (re.compile(r"glm-?6\b.*", re.I),
     "no config.json of GLM-6 could be found; the newest of its family that ships is GLM-5.3"),
    (re.compile(r"(ling|ring)-2\.[56]-1t.*", re.I),
     "its config.json could not be confirmed, and no size of it is guessed"),
    (re.compile(r"hyperclovax-seed-think-32b.*", re.I),
     "its config.json could not be confirmed, and sizes are not guessed; give its config to trace "
     "it"),
)  # fmt: skip


def reason_unshipped(name: str) -> str:
    """Why a model does not ship, as one clause; "" where no reason is recorded."""
    plain = name.strip().rpartition("/")[2]
    return next((why for pattern, why in _REASONS if pattern.fullmatch(plain)), "")
