"""Charts: functions that make a Plotly figure from a table, without Streamlit.

Every figure includes its whole template, so it looks the same on the page, in a file saved by the
browser and in a file drawn on the server.
"""
