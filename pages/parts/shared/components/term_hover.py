"""The glossary on hover: a term in a caption or a heading explains itself under the pointer."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import streamlit as st

from engine.metrics.glossary import GLOSSARY
from engine.metrics.metrics import METRICS

SCRIPT = Path(__file__).with_suffix(".js")
# Glossary terms that are everyday words too: marking them would underline every sentence.
EVERYDAY = """arrival batch bend block budget capacity chunk chunked closed constant continuous control
crashed delivered empty engine experiment form graph held mixed paged pass point pool position
prediction produced prompt queue repeats request run seed serial share simulated snapshot span spread
static step sweep token watched width"""
PLAIN = {*EVERYDAY.split(), "load test", "out of memory", "random weights"}
STYLE = """<style>
::highlight(lab-term) {text-decoration: underline dotted; text-underline-offset: 0.2em}
#lab-term {display: none; position: fixed; z-index: 1000000; max-width: min(22rem, calc(100vw - 16px));
  padding: 0.5rem 0.75rem; border-radius: 0.5rem; font: 0.875rem/1.4 "Source Sans", sans-serif; pointer-events: none;
  color: #f5f6f8; background: #262b33; border: 1px solid #5a6472; box-shadow: 0 4px 16px rgba(0,0,0,.25)}
</style>"""


def draw_term_hover() -> None:
    """Put the script on the page; once per visit to the app, whatever the page."""
    st.html(STYLE + f"<script>{_script()}</script>", unsafe_allow_javascript=True)


@cache
def meanings() -> dict[str, str]:
    """What each marked term means: the glossary's terms and the short names of latencies."""
    terms = {word.word: word.meaning for word in GLOSSARY if word.word not in PLAIN}
    for metric in METRICS:
        if short := re.search(r"\((\w+)\)$", metric.label):
            terms[short[1]] = metric.meaning
    return terms


@cache
def _script() -> str:
    known = json.dumps(meanings()).replace("<", "\\u003c")
    return (
        f"if (!window.labTerms) {{ window.labTerms = true; const meanings = {known};\n"
        f"{SCRIPT.read_text(encoding='utf-8')}}}"
    )
