"""All of the dashboard that needs Streamlit and is no page."""
