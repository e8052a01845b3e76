"""What belongs to a page: its widgets' keys, and the settings and the job in its address.

A widget's key is `<page>.<name>`: no page sees the values of another page's widgets. The address has the names without
the page. `linked` connects the two: it copies the address into the widget when a visitor arrives by a link, by the menu
or by Back, and copies the widget into the address when its value changes. Values at their default are left out.

The browser learns of a new address a moment after the page has written it. Until then it sends the old address, which
must not be taken for a link. So each setting remembers the values that the browser may still send.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

Texts = tuple[str, ...]  # a parameter's values in the address; empty where it is absent

PAGE = "lab.page"
VISIT = "lab.visit"
DEFAULT_PAGE = "bench"
# Parameters that name what a page shows. A change of one is a step of the browser's history; other settings are not.
JOB = "job"
PLACES = ("run_id", "runs", "run", "experiment", JOB, "prediction", "question", "sql")

# When Bench switches to a page with a query, Streamlit first pushes that query onto Bench's own address, as an entry of
# the browser's history that the visitor never saw. The script drops it: one Back leads from the results to Bench, and
# from a job that Run or Compare started back to them. A page that was opened without a place and names its newest run
# or experiment replaces its own address.
HISTORY_SCRIPT = """<script>
if (!window.labHistory) {
  window.labHistory = history.pushState;
  const places = %s;
  history.pushState = function (state, title, url) {
    const isOnBench = /^\\/(bench)?$/.test(location.pathname);
    if (isOnBench && /^\\/?(bench)?\\?(runs|run_id|experiment)=/.test(String(url))) return;
    if (/^\\/?(run|compare)\\?job=/.test(String(url))) return;
    const now = new URL(location.href), next = new URL(String(url), now);
    const isSamePage = now.pathname === next.pathname && now.search !== next.search;
    const isSetting = places.every(name => now.searchParams.get(name) === next.searchParams.get(name));
    const isNewest = places.every(name => !now.searchParams.has(name)) &&
      ["run_id", "experiment"].some(name => next.searchParams.has(name));
    (isSamePage && (isSetting || isNewest) ? history.replaceState : window.labHistory).apply(history, arguments);
  };
}
</script>"""


@dataclass(slots=True, kw_only=True)
class _Setting:
    """A setting as it was last drawn. `trail` are the address's values since the last one that the browser is known to
    have; the newest is at the end."""

    default: Any
    trail: list[Texts]


@dataclass(slots=True, kw_only=True)
class _Visit:
    """A visitor's time on one page, until another page opens."""

    settings: dict[str, _Setting] = field(default_factory=dict)
    put: set[str] = field(default_factory=set)  # settings that were set before their widget was drawn
    notes: dict[str, Any] = field(default_factory=dict)


def arrive(url_path: str) -> None:
    """Begin a visit if the page is another than in the last run. app.py calls this before it draws the page."""
    page = url_path or DEFAULT_PAGE
    before = st.session_state.get(PAGE)
    if page == before:
        if _is_history_step():
            _visit().settings.clear()  # the address wins over what was written since
        return
    is_late = before is not None and any(len(setting.trail) > 1 for setting in _visit().settings.values())
    st.session_state[PAGE], st.session_state[VISIT] = page, _Visit()
    if is_late:  # what the last page wrote may have reached the browser on its way here
        st.query_params.from_dict({name: st.query_params.get_all(name) for name in st.query_params})


def draw_history_script() -> None:
    """Make settings change the browser's address in place, so that Back leads to the page before."""
    st.html(HISTORY_SCRIPT % list(PLACES), unsafe_allow_javascript=True)


def page_key(name: str) -> str:
    """The key of a widget of the current page."""
    return f"{st.session_state.get(PAGE, DEFAULT_PAGE)}.{name}"


def note(name: str, value: Any) -> None:
    """Keep a value until the visitor leaves the page."""
    _visit().notes[name] = value


def noted(name: str) -> Any:
    """The value kept by `note` since the visitor came to the page; None where there is none."""
    return _visit().notes.get(name)


def setting(name: str, default: Any = None) -> Any:
    """The value of the page's widget; `default` if it was not drawn."""
    return st.session_state.get(page_key(name), default)


def put(values: Mapping[str, Any]) -> None:
    """Set widgets of the page by their names; the address follows. For a button's `on_click`."""
    visit = _visit()
    for name, value in values.items():
        st.session_state[page_key(name)] = value
        if name not in visit.settings:
            visit.put.add(name)


def is_asked(name: str) -> bool:
    """Whether a setting is not empty, before its widget is drawn in this run."""
    texts, known = texts_of(name), _visit().settings.get(name)
    if known is not None and texts in known.trail:
        return bool(setting(name))
    return any(texts)


def value_of(name: str, default: Any, read: Callable[[Texts], Any]) -> Any:
    """A setting's value where its widget is not drawn in this run, or not yet: the widget's if the address still has
    what it wrote, else the address's. `read` is as for `linked`."""
    key, asked, known = page_key(name), texts_of(name), _visit().settings.get(name)
    if known is None or asked not in known.trail:
        return _read(asked, default, read)
    return st.session_state[key] if key in st.session_state else _read(known.trail[-1], default, read)


@contextmanager
def linked(
    name: str, default: Any, read: Callable[[Texts], Any], write: Callable[[Any], Texts] | None = None
) -> Iterator[str]:
    """The key for a setting's widget; draw the widget inside the context. `read` converts the parameter's texts to a
    value and raises ValueError for a bad one, which is then replaced by the default. `write` is its reverse, `written`
    by default."""
    key, asked = page_key(name), texts_of(name)
    known = _seed(name, key, asked, default, read)
    yield key
    value = st.session_state.get(key, default)
    wanted = () if value == default else (write or written)(value)
    if wanted != known.trail[-1]:
        known.trail.append(wanted)
    if wanted != texts_of(name):
        _write(name, wanted)


def texts_of(name: str) -> Texts:
    """A parameter's values in the address."""
    return tuple(st.query_params.get_all(name))


def written(value: Any) -> Texts:
    """A value as in the address: whole numbers without a point, days as 2026-11-28, a parameter per list item."""
    if isinstance(value, list | tuple):
        return tuple(text for each in value for text in written(each))
    if value is None:
        return ()
    if isinstance(value, bool):
        return (str(value).lower(),)
    if isinstance(value, float) and value.is_integer():
        return (str(int(value)),)
    return (value.isoformat() if isinstance(value, date) else str(value),)


def one_of(options: Sequence[str]) -> Callable[[Texts], str]:
    """Reads one of the options; of several texts the first that is an option."""

    def read(texts: Texts) -> str:
        chosen = next((text for text in texts if text in options), None)
        if chosen is None:
            raise ValueError("none of the options")
        return chosen

    return read


def some_of(options: Sequence[str]) -> Callable[[Texts], list[str]]:
    """Reads the texts that are options, each once."""
    return lambda texts: [text for text in dict.fromkeys(texts) if text in options]


def last_text(texts: Texts) -> str:
    """Reads any text."""
    return texts[-1]


def some_text(texts: Texts) -> str:
    """Reads any text that is not empty."""
    if not texts[-1]:
        raise ValueError("empty")
    return texts[-1]


def switch(texts: Texts) -> bool:
    """Reads true or false."""
    return {"true": True, "false": False}[one_of(("true", "false"))((texts[-1].lower(),))]


def place(texts: Texts) -> int:
    """Reads the number of a page, from 1."""
    text = texts[-1]
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text)):
        raise ValueError("no page")
    return int(text)


def followed_job() -> str | None:
    """The job in the address, which the page follows; None where there is none."""
    return st.query_params.get(JOB) or None


def follow_job(job_id: str) -> None:
    """Put a job into the address: the page follows it, also after a reload."""
    st.query_params[JOB] = job_id


def forget_job() -> None:
    """Remove the job from the address. The job itself continues."""
    st.query_params.pop(JOB, None)


def _is_history_step() -> bool:
    """Whether the browser's Back or Forward caused this run. Only Streamlit's run context has this, and only in newer
    versions."""
    return bool(getattr(get_script_run_ctx(suppress_warning=True), "is_history_navigation", False))


def _visit() -> _Visit:
    visit: _Visit = st.session_state.setdefault(VISIT, _Visit())
    return visit


def _seed(name: str, key: str, asked: Texts, default: Any, read: Callable[[Texts], Any]) -> _Setting:
    """Set the widget where the address has a value that the page did not write, or where the widget has none yet."""
    visit = _visit()
    known, is_put = visit.settings.get(name), name in visit.put
    visit.put.discard(name)
    if known is None or asked not in known.trail:
        known = visit.settings[name] = _Setting(default=default, trail=[asked])
        if not is_put:
            st.session_state[key] = _read(asked, default, read)
        return known
    while asked in known.trail[1:]:
        del known.trail[0]  # the browser has this value now
    is_untouched = not known.trail[-1] and setting(name) == known.default
    if key not in st.session_state or (is_untouched and known.default != default):
        st.session_state[key] = _read(known.trail[-1], default, read)
    known.default = default
    return known


def _read(texts: Texts, default: Any, read: Callable[[Texts], Any]) -> Any:
    try:
        return read(texts) if texts else default
    except ValueError:
        return default


def _write(name: str, texts: Texts) -> None:
    if texts:
        st.query_params[name] = texts if len(texts) > 1 else texts[0]
    else:
        st.query_params.pop(name, None)
