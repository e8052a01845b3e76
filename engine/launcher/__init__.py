"""Runs started from the app: a queue in front of one warm worker process. No torch here, and no Streamlit."""
