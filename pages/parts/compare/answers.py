"""The answers of compared runs: whether they are equal, and each answer, once where all runs agree."""

from __future__ import annotations

import html
from collections.abc import Collection, Mapping

import pandas as pd
import streamlit as st

from engine.core.format import count, plural
from pages.parts.runs.answers import answer_or_note, answers_of, with_texts
from pages.parts.runs.loaded_run import LoadedRun
from pages.parts.shared.lab import lab
from pages.parts.shared.markdown import plain
from pages.parts.shared.page_state import page_key
from store.queries.agreement import Agreement

PAGE_REQUESTS = 12


def agreement_text(first: str, second: str, found: Agreement, *, as_far_as_both: bool = False) -> str:
    """Whether the answers of two runs are equal, as one sentence. Token numbers count from 1."""
    if not found.requests:
        return f"{first} and {second} answered no request in common."
    far = " as far as both got" if as_far_as_both else ""
    unpaired = f" Only one of them answered {plural(found.only_in_one, 'request')}." if found.only_in_one else ""
    if not found.first_apart:
        both = f"{first} and {second} gave the same answers{far}"
        return (
            f"{both}: all {plural(found.tokens, 'token')} of {plural(found.requests, 'request')} are equal.{unpaired}"
        )
    request = min(found.first_apart)
    place = f"request {request} first differs at token {count(found.first_apart[request] + 1)}"
    return (
        f"{count(found.equal)} of {plural(found.requests, 'answer')} of {first} and {second} are equal token for "
        f"token{far}; {place}.{unpaired}"
    )


def draw_answers(runs: Mapping[str, LoadedRun], differing: Collection[str]) -> None:
    """Whether the answers are equal, then a page of them. `differing` names the settings that bar a fair comparison.

    Answers to different requests are not compared; answers of different models are shown without a verdict.
    """
    if "workload" in differing:
        st.markdown("The runs have different requests, so their answers are not compared.")
        return
    apart = set() if "model" in differing else _draw_agreement(runs)
    _draw_page(runs, apart)


def _draw_agreement(runs: Mapping[str, LoadedRun]) -> set[int]:
    """A sentence for each run against the first. Returns the requests whose answers differ in any run."""
    (first, base), *others = runs.items()
    apart: set[int] = set()
    for name, other in others:
        lenient = not (base.status == other.status == "completed")
        found = _agreement(str(lab().home), base.run_id, other.run_id, lenient, _version(base, other))
        apart |= set(found.first_apart)
        icon = ":material/check:" if found.is_full else ":material/difference:"
        st.markdown(f"{icon} {plain(agreement_text(first, name, found, as_far_as_both=lenient))}")
    if apart:
        with st.expander("Why answers can differ"):
            st.markdown(_why(base))
    return apart


@st.fragment
def _draw_page(runs: Mapping[str, LoadedRun], apart: set[int]) -> None:
    """The chosen page of requests. Changing the page redraws this section only."""
    shown = _page(next(iter(runs.values())).requests, apart)
    st.html(f'<div class="answers-grid">{answers_html(runs, shown, apart)}</div>{STYLE}')


def answers_html(runs: Mapping[str, LoadedRun], request_ids: list[int], apart: set[int]) -> str:
    """One block per request. An answer that all runs gave is written once."""
    answers: dict[int, dict[str, str]] = {request_id: {} for request_id in request_ids}
    prompts: dict[int, str] = {}
    for name, run in runs.items():
        rows = with_texts(run, run.requests[run.requests["request_id"].isin(request_ids)])
        texts = answers_of(run, rows)
        for _, row in rows.iterrows():
            request_id = int(row["request_id"])
            answers[request_id][name] = answer_or_note(texts[request_id], row, run.status)
            prompts.setdefault(request_id, row["prompt_text"] or "")
    return "".join(_block(i, prompts.get(i, ""), answers[i], i in apart) for i in request_ids)


def _block(request_id: int, prompt: str, answers: Mapping[str, str], is_apart: bool) -> str:
    """`answers` by the runs' names."""
    if len(answers) > 1 and len(set(answers.values())) == 1:
        answers = {"both" if len(answers) == 2 else "all": next(iter(answers.values()))}
    note = " · different answers" if is_apart else ""
    cells = "".join(
        f'<div class="answer"><div class="label">{html.escape(name)}</div>{html.escape(text)}</div>'
        for name, text in answers.items()
    )
    head = f'<div class="label">request {request_id}{note}</div><div class="prompt">{html.escape(_cut(prompt))}</div>'
    return f'<div class="request">{head}<div class="row">{cells}</div></div>'


def _page(requests: pd.DataFrame, apart: set[int]) -> list[int]:
    """The ids on the chosen page; requests with different answers come first."""
    ids = sorted(requests["request_id"].astype(int), key=lambda request_id: (request_id not in apart, request_id))
    pages = -(-len(ids) // PAGE_REQUESTS)
    if pages <= 1:
        return ids
    st.caption(
        f"{plural(len(ids), 'request')}, {PAGE_REQUESTS} per page{', different answers first' if apart else ''}."
    )
    page = st.pagination(pages, key=page_key("answers_page"))
    return ids[(page - 1) * PAGE_REQUESTS : page * PAGE_REQUESTS]


@st.cache_data(max_entries=32, show_spinner=False)
def _agreement(home: str, first: str, second: str, lenient: bool, version: int) -> Agreement:
    """The cache key has the store's version while a run is running. `home` separates stores."""
    return lab().store.agreements.of(first, second, as_far_as_both=lenient)


def _version(*runs: LoadedRun) -> int:
    return lab().recorder.version if any(run.status == "running" for run in runs) else -1


def _why(base: LoadedRun) -> str:
    if not base.config.sampling.is_greedy:
        return (
            "These answers are sampled. Each request has its own random draws, the same in every run. A rounding "
            "difference in the probabilities can move a draw to another token, and the rest of the answer follows."
        )
    return (
        "Greedy decoding takes the most likely token. In another batch, sums are computed in another order, so logits "
        "differ in their last digits. Where two candidates are closer than that, the choice flips, and the rest of the "
        "answer follows. A coarser dtype flips more often. `.venv/bin/python -m engine parity` shows both logits of "
        "each flip."
    )


def _cut(text: str, limit: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[:limit]} …"


STYLE = """<style>
.answers-grid {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: .75rem;}
.request {border: 1px solid rgba(128,128,128,.3); border-radius: .5rem; padding: .6rem .9rem;}
.request .label {font-size: .8rem; opacity: .7;}
.request .prompt {font-weight: 600; margin: .1rem 0 .4rem; overflow-wrap: anywhere;}
.request .row {display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 13rem), 1fr));
  gap: .4rem 1.2rem;}
.request .answer {white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.45; max-height: 14rem;
  overflow-y: auto;}
</style>"""
