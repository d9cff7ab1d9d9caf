"""Page Upload: one box for any file; its kind, where its time goes, and its prediction."""

from collections.abc import Callable

import streamlit as st

from app.dashboard import uploads
from app.dashboard.page_texts import page_text
from app.dashboard.panels import benchmark_answer, profile, small_files
from app.dashboard.widgets import choose

st.title("Upload", anchor=False)
files = uploads.picker("upload")
if not files:
    st.info(page_text("upload"), icon=":material/upload_file:")
    st.stop()
parts: dict[str, Callable[[], None]] = {}
if files.reports:
    parts |= profile.parts_of(files.reports)
if files.results:
    parts |= benchmark_answer.parts_of(files.results, files.ran)
parts |= small_files.parts_of(files)
if not parts:
    st.info(page_text("only a log"), icon=":material/info:")
    st.stop()
names = list(parts)
with st.container(horizontal=True, vertical_alignment="center"):
    part = names[0]
    if len(names) > 1:
        part = choose("Part", names, "part", label_visibility="collapsed")
    if files.reports:
        uploads.pattern_box()
parts[part]()
