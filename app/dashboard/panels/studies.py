"""Technology studies: chips x formats x techniques on one chart, shipped or the visitor's own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import streamlit as st
import yaml

from app.charts import chip_lab as charts
from app.dashboard import caches, export, sidebar, strip
from app.dashboard.load_curves import as_batch
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import choose, draw_table, pick, saying_errors
from app.decide.study import Study, label, study
from app.line.sentence import sentence, words
from app.question.query import ask
from app.question.verbs import parameters_of
from app.scenario.setup import Setup
from app.wording.markdown import plain
from hardware_db import yaml_document

_FOLDER = Path(__file__).parents[2] / "samples" / "studies"
_OWN = "The form's scenario"
#: Texts of the shipped studies by their titles.
_WORKED: Mapping[str, str] = {
    str(yaml_document.read(path)["title"]): path.read_text(encoding="utf-8")
    for path in (_FOLDER / f"{name}.yaml" for name in ("hbm4", "decode-chip", "four-bit-caches"))
}


def show(setup: Setup) -> None:
    """Draw the choice of a study, its editable text, its chart and its table."""
    name = choose("Study", [*_WORKED, _OWN], "study", label_visibility="collapsed")
    if name == _OWN:
        with sidebar.stopping():
            shown = _of_question(as_batch(setup))
    else:
        shown = _WORKED[name]
        strip.say_nothing()
    with st.expander("The study as text, to change", icon=":material/edit:"):
        text = st.text_area("Study (YAML)", shown, 320, key=f"study_text_{name}",
                            max_chars=20_000)  # fmt: skip
    figure = pick("Figure", list(charts.FIGURES), "study_figure", width=260,
                  format_func=lambda one: charts.FIGURES[one].head)  # fmt: skip
    with saying_errors():
        found = _priced(text)
        base = ask("estimate", yaml_document.parse(text, "study")["question"]).question
        asked = plain(words(sentence(base, "estimate")))
        st.caption(f"Each combination changes this scenario: {asked}.")
        if any(row.get(figure) is not None for row in found.rows):
            chart = charts.bars(found.rows, figure, found.title, export.look())
            export.chart(chart, f"study-{figure}")
        else:
            st.info(page_text("no combination"), icon=":material/info:")
        draw_table([_words(row) for row in found.rows], "study_table")
        st.caption(page_text("studies"))


def _of_question(setup: Setup) -> str:
    s = setup.scenario
    names = ("model", "system", "isl", "osl", "batch", *s.changed())
    question = {name: getattr(s, name) for name in names if name in parameters_of("estimate")}
    varied = yaml_document.read(_FOLDER / "each-resource-doubled.yaml")
    study_ = {"title": "", "question": question, **varied}
    return str(yaml.safe_dump(study_, sort_keys=False, allow_unicode=True))


@caches.by_setup(32)
def _priced(text: str) -> Study:
    return study(yaml_document.parse(text, "study"))


def _words(row: Mapping[str, Any]) -> dict[str, Any]:
    runs = row["status"] == "ok"
    return {
        "combination": label(row),
        **{column.head: column.words(row.get(name)) for name, column in charts.FIGURES.items()},
        "prompts bound by": row.get("prefill_bound_by"),
        "decode bound by": row.get("decode_bound_by") if runs else row["message"],
    }  # fmt: skip
