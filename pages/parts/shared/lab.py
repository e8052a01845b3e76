"""The services behind every page: the store, the recorder that fills it, and the queue of runs.

All visitors share them. The first visitor opens them, and they are closed with the app's process. A second app on the
same LAB_HOME gets StoreHeld from the store; app.py shows it as one line.
"""

from __future__ import annotations

import atexit
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.core.home import lab_home
from engine.launcher.run_queue import RunQueue
from store import Recorder, Store
from store.sandbox import Turns

VISITOR, VISITOR_COOKIE = "lab.visitor", "lab_visitor"
QUERIES_AT_ONCE = 2  # of all visitors; each may take 0.8 GB and two cores


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """Pages read from `store`, `recorder` keeps it current, `queue` starts runs, and SQL waits for one of `turns`."""

    home: Path
    store: Store
    recorder: Recorder
    queue: RunQueue
    turns: Turns

    def close(self) -> None:
        """Stop the worker and the recorder, and close the store. Closing twice is allowed."""
        self.queue.close()
        self.recorder.stop()
        self.store.close()


def lab() -> Lab:
    """The services of this process's LAB_HOME. Raises StoreHeld when another process has the store."""
    return _open(str(lab_home()))


@st.cache_resource(show_spinner="Opening the lab's store …")
def _open(home: str) -> Lab:
    folder = Path(home)
    runs = folder / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    store = Store(folder)
    recorder = Recorder(store, runs)
    recorder.start()
    opened = Lab(home=folder, store=store, recorder=recorder, queue=RunQueue(folder), turns=Turns(QUERIES_AT_ONCE))
    atexit.register(opened.close)
    return opened


def is_dark() -> bool:
    """Whether this visitor's theme is dark. Figures need to know; widgets adapt by themselves."""
    return st.context.theme.type == "dark"


def visitor() -> str:
    """A random name for this browser. A cookie keeps it over reloads, until the browser is closed."""
    if VISITOR not in st.session_state:
        known = str(st.context.cookies.get(VISITOR_COOKIE) or "")
        is_name = re.fullmatch(r"[0-9a-f]{16}", known) is not None
        st.session_state[VISITOR] = known if is_name else secrets.token_hex(8)
    return str(st.session_state[VISITOR])


def draw_visitor_script() -> None:
    """Keep the visitor's name in the browser. It protects nothing: it tells whose work something is."""
    cookie = f"{VISITOR_COOKIE}={visitor()}; path=/; SameSite=Strict"
    st.html(f'<script>document.cookie = "{cookie}"</script>', unsafe_allow_javascript=True)


def is_another_visitors(owner: str | None) -> bool:
    """Whether someone else started it. `owner` is a job's visitor; None where it was not started in this app."""
    return bool(owner) and owner != visitor()


def others_text(run_or_experiment_ids: Sequence[str]) -> str:
    """`2 of them were started by another visitor.`; empty where there is none."""
    count = sum(is_another_visitors(lab().queue.owner(each)) for each in run_or_experiment_ids)
    if not count:
        return ""
    which = (
        "It"
        if len(run_or_experiment_ids) == 1
        else "All"
        if count == len(run_or_experiment_ids)
        else f"{count} of them"
    )
    return f"{which} {'was' if count == 1 else 'were'} started by another visitor."
