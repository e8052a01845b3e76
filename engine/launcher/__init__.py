"""The launcher: the app's queue of runs in front of one warm worker process. Imports neither torch nor Streamlit."""
