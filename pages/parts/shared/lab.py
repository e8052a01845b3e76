"""The services behind every page: the store, the recorder that fills it, and the queue of runs.

One of each in the app's process, shared by all visitors. They are opened by the first visitor and closed with the
process; a second app on the same LAB_HOME gets the store's StoreHeld error, which app.py shows as one line.
"""

from __future__ import annotations

import atexit
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from engine.core.home import lab_home
from engine.launcher.run_queue import RunQueue
from store import Recorder, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What pages read from (`store`), what keeps it fresh (`recorder`), and what they hand runs to (`queue`)."""

    home: Path
    store: Store
    recorder: Recorder
    queue: RunQueue

    def close(self) -> None:
        """End the worker, the recorder and the store's connection. Closing twice does no harm."""
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
    opened = Lab(home=folder, store=store, recorder=recorder, queue=RunQueue(folder))
    atexit.register(opened.close)
    return opened


def is_dark() -> bool:
    """Whether this visitor's theme is dark; figures need to know, widgets adapt by themselves."""
    return st.context.theme.type == "dark"
