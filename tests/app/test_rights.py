"""Rights of visitors: all rights on one's own machine, those allowed by the operator on a shared
server.
"""

import pytest

from app.rights import VARIABLE, Rights, rights_here, rights_of
from genz_core.errors import InvalidValue

SHARED = Rights(shared=True, may_save=False, may_measure=False)


def test_on_ones_own_machine_all_is_allowed():
    rights = rights_of("")
    assert rights == Rights() and rights.may_save and rights.may_measure and not rights.login


@pytest.mark.parametrize(
    "rights",
    [
        SHARED,
        Rights(shared=True, may_save=True, may_measure=False),
        Rights(shared=True, may_save=False, may_measure=True, login=True),
        Rights(login=True),
    ],
)
def test_rights_survive_their_words(rights: Rights, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, rights.words())
    assert rights_here() == rights


def test_what_is_not_allowed_in_words_is_not_allowed():
    assert rights_of("shared") == SHARED


def test_a_word_that_is_no_right_is_refused():
    """A typing error must not grant rights on a server."""
    with pytest.raises(InvalidValue, match="'shard': choose from shared, may_save"):
        rights_of("shard may_save")
