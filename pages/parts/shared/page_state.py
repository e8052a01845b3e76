"""What belongs to a page: its widgets' keys, and the settings that its address carries.

A widget's key is `<page>.<name>`, so that no page finds what another page's widget holds. The address has the names
alone. `linked` ties one to the other: it puts the address's value into the widget when a visitor arrives by a link, by
the menu or by Back, and puts the widget's value into the address when it changes. A value at its default is left out.

The browser learns of a new address a moment after the page has written it. What it sends meanwhile still has the older
one, which is then no link that was followed: each setting keeps the values that the browser may not have left yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

Texts = tuple[str, ...]  # a parameter's values in the address; none where it is not there

PAGE = "lab.page"
VISIT = "lab.visit"
DEFAULT_PAGE = "bench"
# Parameters that say what a page shows. Another of them is a step of the browser's history, another setting is not.
PLACES = ("run_id", "runs", "run", "experiment", "job", "prediction", "question", "sql")

# Leaving Bench for a page with a query first puts that query behind Bench's own address, as an entry of the browser's
# history that no visitor has seen. It is kept out, so that Back leads from the results to Bench in one step.
HISTORY_SCRIPT = """<script>
if (!window.labHistory) {
  window.labHistory = history.pushState;
  const places = %s;
  history.pushState = function (state, title, url) {
    if (/^\\/?(bench)?\\?(runs|run_id|experiment)=/.test(String(url))) return;
    const now = new URL(location.href), next = new URL(String(url), now);
    const isSetting = now.pathname === next.pathname && now.search !== next.search &&
      places.every(name => now.searchParams.get(name) === next.searchParams.get(name));
    (isSetting ? history.replaceState : window.labHistory).apply(history, arguments);
  };
}
</script>"""


@dataclass(slots=True, kw_only=True)
class _Setting:
    """A setting as it was last drawn. `trail`: the address's values since the last that the browser is known to have,
    the last of them being the one that was written last."""

    default: Any
    trail: list[Texts]


@dataclass(slots=True, kw_only=True)
class _Visit:
    """One stay on a page, from its arrival to the next page's."""

    settings: dict[str, _Setting] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)


def arrive(url_path: str) -> None:
    """Begin a stay where the page is another than in the last run. Called by app.py, before the page is drawn."""
    page = url_path or DEFAULT_PAGE
    before = st.session_state.get(PAGE)
    if page == before:
        if _is_history_step():
            _visit().settings.clear()  # whatever was written meanwhile: the address is what the visitor wants
        return
    is_late = before is not None and any(len(setting.trail) > 1 for setting in _visit().settings.values())
    st.session_state[PAGE], st.session_state[VISIT] = page, _Visit()
    if is_late:  # what the last page wrote may have reached the browser on its way here
        st.query_params.from_dict({name: st.query_params.get_all(name) for name in st.query_params})


def draw_history_script() -> None:
    """Settings change the browser's address in place, so that Back leads to where the visitor came from."""
    st.html(HISTORY_SCRIPT % list(PLACES), unsafe_allow_javascript=True)


def page_key(name: str) -> str:
    """The key of a widget of the page that is being drawn."""
    return f"{st.session_state.get(PAGE, DEFAULT_PAGE)}.{name}"


def note(name: str, value: Any) -> None:
    """Keep something for as long as the visitor stays on the page."""
    _visit().notes[name] = value


def noted(name: str) -> Any:
    """What was kept by that name since the visitor came to the page; None where nothing was."""
    return _visit().notes.get(name)


def setting(name: str, default: Any = None) -> Any:
    """What the page's widget of that name holds; `default` where it has not been drawn."""
    return st.session_state.get(page_key(name), default)


def put(values: Mapping[str, Any]) -> None:
    """Set the page's widgets by their names; the address follows. For a button's `on_click`."""
    for name, value in values.items():
        st.session_state[page_key(name)] = value


def is_asked(name: str) -> bool:
    """Whether a setting is anything else than empty, before its widget is drawn in this run."""
    texts, known = texts_of(name), _visit().settings.get(name)
    if known is not None and texts in known.trail:
        return bool(setting(name))
    return any(texts)


@contextmanager
def linked(name: str, default: Any, read: Callable[[Texts], Any]) -> Iterator[str]:
    """The key for the widget of a setting, which is to be drawn inside. `read` makes a value of the parameter's texts;
    it raises ValueError for those that the widget cannot take, and the default is used."""
    key, asked = page_key(name), texts_of(name)
    known = _seed(name, key, asked, default, read)
    yield key
    value = st.session_state.get(key, default)
    wanted = () if value == default else written(value)
    if wanted != known.trail[-1]:
        known.trail.append(wanted)
    if wanted != texts_of(name):
        _write(name, wanted)


def texts_of(name: str) -> Texts:
    """A parameter's values in the address."""
    return tuple(st.query_params.get_all(name))


def written(value: Any) -> Texts:
    """A value as the address has it: whole numbers without a point, days as in 2026-11-28, a list as one each."""
    if isinstance(value, list | tuple):
        return tuple(text for one in value for text in written(one))
    if value is None:
        return ()
    if isinstance(value, bool):
        return (str(value).lower(),)
    if isinstance(value, float) and value.is_integer():
        return (str(int(value)),)
    return (value.isoformat() if isinstance(value, date) else str(value),)


def one_of(options: Sequence[str]) -> Callable[[Texts], str]:
    """Reads one of these; of several the first that is one."""

    def read(texts: Texts) -> str:
        chosen = next((text for text in texts if text in options), None)
        if chosen is None:
            raise ValueError("none of the options")
        return chosen

    return read


def some_of(options: Sequence[str]) -> Callable[[Texts], list[str]]:
    """Reads those that are options, each once."""
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


def _is_history_step() -> bool:
    """Whether the browser's Back or Forward asked for this run. Streamlit says so nowhere but in a run's context, and
    its older versions do not say it."""
    return bool(getattr(get_script_run_ctx(suppress_warning=True), "is_history_navigation", False))


def _visit() -> _Visit:
    visit: _Visit = st.session_state.setdefault(VISIT, _Visit())
    return visit


def _seed(name: str, key: str, asked: Texts, default: Any, read: Callable[[Texts], Any]) -> _Setting:
    """Give the widget its value where the address has another than was written, or where it has no value yet."""
    known = _visit().settings.get(name)
    if known is None or asked not in known.trail:
        known = _visit().settings[name] = _Setting(default=default, trail=[asked])
        st.session_state[key] = _read(asked, default, read)
        return known
    while asked in known.trail[1:]:
        del known.trail[0]  # the browser has got so far
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
