"""Whether the runs said the same, and what they said: an answer once where all agree, side by side where not."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping

import pandas as pd
import streamlit as st

from engine.core.format import count, plural
from pages.parts.runs.answers import answer_or_note, answers_of, with_texts
from pages.parts.runs.loaded_run import RunData
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.queries.agreement import Agreement, agreement

# Whether runs said the same, in a sentence.


def agreement_text(first: str, second: str, found: Agreement, *, as_far_as_both: bool = False) -> str:
    """The finding as one sentence; token numbers count from 1, as a reader counts."""
    if not found.requests:
        return f"{first} and {second} have no request in common that both answered."
    far = " as far as both went" if as_far_as_both else ""
    alone = (
        f" {plural(found.only_in_one, 'request')} got an answer from one of them alone." if found.only_in_one else ""
    )
    if not found.first_apart:
        both = f"{first} and {second} said the same{far}"
        return f"{both}: all {plural(found.tokens, 'token')} of {plural(found.requests, 'request')} are equal.{alone}"
    request = min(found.first_apart)
    place = f"request {request} parts at its token {count(found.first_apart[request] + 1)}"
    return (
        f"{count(found.equal)} of {plural(found.requests, 'answer')} by {first} and {second} are equal token for "
        f"token{far}; {place}.{alone}"
    )


PAGE_REQUESTS = 12


def draw_answers(runs: Mapping[str, RunData], differing: Collection[str]) -> None:
    """Whether they agree, then a page of requests with their answers. `differing` is what makes the runs no fair pair.

    Other requests have other answers, so there is nothing to compare; other models are shown side by side alone.
    """
    st.subheader("Did they say the same?", anchor="answers")
    if "workload" in differing:
        st.markdown("They were asked different things, so their answers are not set against each other.")
        return
    apart = set() if "model" in differing else _draw_agreement(runs)
    _draw_page(runs, apart)


def _draw_agreement(runs: Mapping[str, RunData]) -> set[int]:
    """A sentence for each run against the first. Returns the requests whose answers part anywhere."""
    (first, base), *others = runs.items()
    apart: set[int] = set()
    for name, other in others:
        lenient = not (base.status == other.status == "completed")
        found = _agreement(str(lab().home), base.run_id, other.run_id, lenient, _version(base, other))
        apart |= set(found.first_apart)
        icon = ":material/check:" if found.is_full else ":material/difference:"
        st.markdown(f"{icon} {plain(agreement_text(first, name, found, as_far_as_both=lenient))}")
    if apart:
        with st.expander("Why answers can part"):
            st.markdown(_why(base))
    return apart


@st.fragment
def _draw_page(runs: Mapping[str, RunData], apart: set[int]) -> None:
    """The chosen page of requests; another page draws no figure anew."""
    shown = _page(next(iter(runs.values())).requests, apart)
    st.html(f'<div class="answers-grid">{answers_html(runs, shown, apart)}</div>{STYLE}')


def answers_html(runs: Mapping[str, RunData], request_ids: list[int], apart: set[int]) -> str:
    """One block a request. An answer that all runs gave is written once."""
    said: dict[int, dict[str, str]] = {request_id: {} for request_id in request_ids}
    prompts: dict[int, str] = {}
    for name, run in runs.items():
        rows = with_texts(run, run.requests[run.requests["request_id"].isin(request_ids)])
        texts = answers_of(run, rows)
        for _, row in rows.iterrows():
            request_id = int(row["request_id"])
            said[request_id][name] = answer_or_note(texts[request_id], row, run.status)
            prompts.setdefault(request_id, row["prompt_text"] or "")
    return "".join(_block(i, prompts.get(i, ""), said[i], i in apart) for i in request_ids)


def _block(request_id: int, prompt: str, said: Mapping[str, str], is_apart: bool) -> str:
    together = "both" if len(said) == 2 else "all"
    answers = {together: next(iter(said.values()))} if len(said) > 1 and len(set(said.values())) == 1 else said
    note = " · these part" if is_apart else ""
    cells = "".join(
        f'<div class="said"><div class="who">{html.escape(name)}</div>{html.escape(text)}</div>'
        for name, text in answers.items()
    )
    head = f'<div class="who">request {request_id}{note}</div><div class="asked">{html.escape(_cut(prompt))}</div>'
    return f'<div class="both">{head}<div class="row">{cells}</div></div>'


def _page(requests: pd.DataFrame, apart: set[int]) -> list[int]:
    """The ids on the chosen page; those that part first, where any do."""
    ids = sorted(requests["request_id"].astype(int), key=lambda request_id: (request_id not in apart, request_id))
    pages = -(-len(ids) // PAGE_REQUESTS)
    if pages <= 1:
        return ids
    st.caption(f"{plural(len(ids), 'request')}, {PAGE_REQUESTS} a page{', those that part first' if apart else ''}.")
    page = st.pagination(pages, key=page_key("answers_page"))
    return ids[(page - 1) * PAGE_REQUESTS : page * PAGE_REQUESTS]


@st.cache_data(max_entries=32, show_spinner=False)
def _agreement(home: str, first: str, second: str, lenient: bool, version: int) -> Agreement:
    """Kept by the store's version while one of the runs is live; `home` keeps apart what stores of two homes hold."""
    return agreement(lab().store.cursor(), first, second, as_far_as_both=lenient)


def _version(*runs: RunData) -> int:
    return lab().recorder.version if any(run.status == "running" for run in runs) else -1


def _why(base: RunData) -> str:
    if not base.config.sampling.is_greedy:
        return (
            "These answers are sampled. Each request has its own random draws, the same in every run; but a rounding "
            "difference in the probabilities can move a draw to another token, and the answer goes on from there."
        )
    return (
        "Greedy decoding takes the likeliest token. Rows of another batch are multiplied in another order, so logits "
        "differ in their last digits; where two candidates are closer than that, the choice flips, and the answer goes "
        "on from another token. In a coarser dtype that happens more often. `.venv/bin/python -m engine parity` shows "
        "both logits of each flip."
    )


def _cut(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]} …"


STYLE = """<style>
.answers-grid {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: .75rem;}
.both {border: 1px solid rgba(128,128,128,.3); border-radius: .5rem; padding: .6rem .9rem;}
.both .who {font-size: .8rem; opacity: .7;}
.both .asked {font-weight: 600; margin: .1rem 0 .4rem; overflow-wrap: anywhere;}
.both .row {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr)); gap: .4rem 1.2rem;}
.both .said {white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.45; max-height: 14rem; overflow-y: auto;}
</style>"""
