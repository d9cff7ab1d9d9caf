"""The visitor of a session: identity, rights, and the visitor's own data folder.

On one's own machine the visitor is the user, and uses the user's data folder.  On a shared server,
what a visitor saves is laid over the user's folder: for the session, or, if visitors log in, for as
long as the server keeps its data.
"""

import hashlib
import tempfile
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.dashboard.page_texts import page_text
from app.rights import rights_here
from app.wording.markdown import plain
from hardware_db.data_folder import edition, users_folder

_FOLDER = "visitor_folder"


def own_folder() -> Path | None:
    """The folder for this visitor's files; None if it is the user's own."""
    if not rights_here().shared or rights_here().may_save:
        return None
    person = identity()
    if person:
        return users_folder() / "visitors" / person
    if _FOLDER not in st.session_state:  # it goes when the session is forgotten
        st.session_state[_FOLDER] = tempfile.TemporaryDirectory(prefix="ridgeline-visitor-")
    return Path(st.session_state[_FOLDER].name)


def own_edition() -> tuple[str, str]:
    """This visitor's folder and the state of its files, ("", "") while nothing is saved there."""
    folder = own_folder()
    state = edition(folder) if folder else ""
    return (str(folder), state) if state else ("", "")


def keeping() -> str:
    """Where this visitor's data are stored, as text."""
    if own_folder():
        return "for you alone" if identity() else "for this session alone"
    return "in the data folder of this server" if rights_here().shared else "in your data folder"


def may_measure(command: str) -> bool:
    """Whether this visitor may measure here; draws a note if not.

    command: the command for the same measurement on another machine.
    """
    if not rights_here().may_measure:
        st.info(page_text("no measuring", command=command), icon=":material/timer_off:")
    return rights_here().may_measure


def name() -> str:
    """Name of this visitor of a shared server: the person, or the session; "" for the user."""
    if not rights_here().shared:
        return ""
    context = get_script_run_ctx()
    return identity() or (context.session_id if context else "")


# ------------------------------------------------------------------------------- login


def identity() -> str:
    """A folder name for the logged-in visitor, "" without login."""
    if not st.user.get("is_logged_in"):
        return ""
    claims = "\n".join(str(st.user.get(claim, "")) for claim in ("iss", "sub"))
    return hashlib.sha256(claims.encode()).hexdigest()[:32]


def admit() -> None:
    """Let the visitor in; before a required login, draw only the login."""
    logged_in = st.user.get("is_logged_in")  # None: no provider is configured
    if logged_in:
        with st.sidebar:
            name = st.user.get("name") or st.user.get("email") or "you"
            who = f"Logged in: {plain(name)}"
            st.button("Log out", on_click=st.logout, key="log_out", help=who)
    elif logged_in is not None:
        st.title("Ridgeline", anchor=False)
        st.button("Log in", on_click=st.login, key="log_in", icon=":material/login:")
        st.stop()
    elif rights_here().login:
        st.error(page_text("no login"), icon=":material/lock:")
        st.stop()
