"""The parts of the dashboard that pages share and that need Streamlit.

Functions raise `RidgelineError` for a question that has no answer; `sidebar.stopping` and
`widgets.saying_errors` draw it as its sentence.
"""
