"""The parts of the dashboard that pages share and that need Streamlit."""
