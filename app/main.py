"""The dashboard: its pages, and the sidebar with the scenario."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from app.dashboard import caches, garbage, job_results, sidebar, strip, visitor
from hardware_db.data_folder import overlay

HERE = Path(__file__).parent

st.logo(str(HERE / "logo.svg"), size="large", icon_image=str(HERE / "icon.svg"))


def page(path: str, title: str, symbol: str, default: bool = False) -> StreamlitPage:
    """The page of a file of `views`; its address is the file's stem, the root for the default page.

    path: below `views`, without ".py".  symbol: name of a Material icon.
    """
    return st.Page(
        f"views/{path}.py", title=title, icon=f":material/{symbol}:", default=default,
        url_path="" if default else None,
    )  # fmt: skip


pages = {
    "": [
        page("answer", "Answer", "speed", default=True),
        page("explain", "Explain", "stacked_bar_chart"),
        page("compare", "Compare", "compare_arrows"),
        page("plan", "Plan", "flag"),
        page("chip_lab", "Chip lab", "tornado"),
    ],
    "Measured": [
        page("upload", "Upload", "upload_file"),
        page("measure", "Measure", "timer"),
    ],
    "Library": [
        page("accuracy", "Accuracy", "straighten"),
        page("library", "Library", "dns"),
    ],
}


#: Addresses of pages of earlier releases, and the file's stem of the page at the root, with the
#: page and the part of it that hold them now.
MOVED: Mapping[str, tuple[str, str]] = {
    "reports": ("upload", ""),
    "measured": ("upload", "Measured and predicted"),
    "benchmarks": ("upload", ""),
    "run": ("measure", "Run"),
    "calibrate": ("measure", "Calibrate"),
    "hardware": ("library", "Hardware"),
    "models": ("library", "Models"),
    "modules": ("library", "Modules"),
    "frontiers": ("compare", "Frontier"),
    "economics": ("plan", "Economics"),
    "sensitivity": ("chip_lab", "Sensitivity"),
    "overview": ("answer", ""),
    "answer": ("answer", ""),
    "serving": ("answer", "Load curves"),
    "roofline": ("explain", "Roofline"),
    "breakdown": ("explain", "Breakdown"),
    "memory": ("explain", "Memory"),
    "inside": ("explain", "Model inside"),
}


def moved() -> list[StreamlitPage]:
    """A hidden page for each address of an earlier release, which leads to its page of today."""
    return [
        st.Page(
            partial(_lead, *place), title=address.capitalize(), url_path=address,
            visibility="hidden",
        )
        for address, place in MOVED.items()
    ]  # fmt: skip


def _lead(path: str, part: str) -> None:
    """Go to a page with what stands in the address, and the part of it that is opened."""
    state = {key: st.query_params.get_all(key) for key in st.query_params}
    st.switch_page(f"views/{path}.py", query_params=state | ({"part": part} if part else {}))


def main() -> None:
    """Draw the page that the address names."""
    garbage.freeze_survivors()
    garbage.forget_widgets()
    visitor.admit()
    caches.clear_stale_caches()
    # the icon first: else the browser asks a font's host for the page's own
    st.set_page_config(page_icon=str(HERE / "icon.svg"), layout="wide")
    chosen = st.navigation({**pages, "Moved": moved()}, position="top")
    if chosen.url_path in MOVED:
        chosen.run()
    st.set_page_config(page_title=f"{chosen.title} · Ridgeline")
    strip.go(chosen.url_path)
    job_results.leave_queue(chosen.url_path)
    with overlay(visitor.own_folder()):  # the visitor's files override the user's
        sidebar.sidebar()
        strip.begin(chosen.url_path)
        chosen.run()


if __name__ == "__main__":  # not in a process that a page starts
    main()
