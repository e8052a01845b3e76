"""What a live run shows: four tiles, a timeline that fills from the left, and the answers as they are written.

Everything is read from the store, which follows the run log a fraction of a second behind. The timeline's axis is as
long as the schedule will be, where that is known beforehand, so that nothing rescales while it fills.
"""

from __future__ import annotations

import html
from functools import lru_cache

import pandas as pd
import streamlit as st

from engine.launcher.job import Job, JobRun
from engine.runlog.schema import WATCHED_FILE
from pages.figures.layout import note_figure
from pages.figures.queue import queue_from_passes
from pages.figures.timeline import growing_range, shared_range, slot_timeline
from pages.parts.answers import decode_all, decoder_of, tokenizer_file_of
from pages.parts.forecast import forecast_of
from pages.parts.format import count, number
from pages.parts.lab import is_dark, lab

MAX_CARDS = 12
CHART = {"displayModeBar": False, "scrollZoom": False}


def mark_watched(run: JobRun) -> None:
    """Note in the run's folder that a live page shared the machine with it."""
    if run.state == "running" and run.has_log:
        (run.folder / WATCHED_FILE).touch()


def draw_tiles(run: JobRun) -> None:
    """Requests finished, new tokens, tokens a second so far, requests waiting."""
    passes = lab().store.passes(run.run_id) if run.has_log else pd.DataFrame()
    waiting = int(passes["queue_depth"].iloc[-1]) if len(passes) else None
    rate = run.output_tokens / run.elapsed_s if run.elapsed_s > 0 else None
    tiles = (
        ("Requests finished", f"{count(run.finished_requests)} of {count(run.requests)}"),
        ("New tokens", count(run.output_tokens)),
        ("Tokens a second so far", number(rate)),
        ("Requests waiting", count(waiting)),
    )
    with st.container(horizontal=True, gap="medium"):
        for label, value in tiles:
            st.metric(label, value, width=160)


def draw_timelines(job: Job) -> None:
    """One timeline a run of the job, all over one axis; a run that has not begun holds its place."""
    spans = {run.run_id: lab().store.spans(run.run_id) for run in job.runs if run.has_log}
    window = _window(job, list(spans.values()))
    for run in job.runs:
        title = f"{run.config.engine}" if len(job.runs) > 1 else ""
        frame = spans.get(run.run_id)
        if frame is None or frame.empty:
            height = _timeline_px(run.config.num_slots, bool(title))
            note = "This run follows." if run.state == "queued" else "No request has a slot yet."
            figure = note_figure(note, dark=is_dark(), title=title).update_layout(height=height)
        else:
            figure = slot_timeline(
                frame,
                queue=queue_from_passes(lab().store.passes(run.run_id)),
                x_range=window,
                num_lanes=run.config.num_slots,
                title=title,
                dark=is_dark(),
            )
        st.plotly_chart(figure, key=f"live_{run.run_id}", theme=None, config=CHART)


def _window(job: Job, frames: list[pd.DataFrame]) -> tuple[float, float]:
    """As many steps as the longest schedule will take; where that is unknown, an axis that grows in round numbers."""
    planned = [forecast_of(run.config).steps for run in job.runs]
    steps = [n for n in planned if n is not None]
    started = [frame for frame in frames if not frame.empty]
    if len(steps) == len(planned):
        longest = max(steps, default=1)
        return (0.0, float(max(longest, shared_range(started)[1])))
    return growing_range(pd.concat(started)) if started else (0.0, 1.0)


@lru_cache(maxsize=64)
def _timeline_px(num_lanes: int, has_title: bool) -> int:
    """The height of a timeline of that many lanes, taken from one that is drawn for the purpose."""
    span = {
        "lane": [0],
        "slot": [0],
        "request_id": [0],
        "phase": ["decode"],
        "prompt_tokens": [1],
        "tokens_so_far": [1],
    }
    ends = {"start_step": [0.0], "end_step": [1.0], "start_s": [0.0], "end_s": [1.0]}
    queue = pd.DataFrame({"step": [0.0, 1.0], "time_s": [0.0, 1.0], "queue_depth": [0.0, 0.0]})
    title = "static" if has_title else ""
    figure = slot_timeline(pd.DataFrame(span | ends), queue=queue, num_lanes=num_lanes, title=title)
    return int(figure.layout.height)


def draw_answers(run: JobRun) -> None:
    """A card a request: the question, and the answer as far as it is written. Of many requests, those that run now."""
    if not run.has_log:
        requests, texts = pd.DataFrame(), {}
    else:
        requests = _shown(lab().store.requests(run.run_id))
        texts = _texts(run, requests)
    st.markdown("**Answers as they are written**")
    cards = [_card(row, texts.get(int(row["request_id"]), "")) for _, row in requests.iterrows()]
    cards += [_empty_card()] * (min(MAX_CARDS, run.requests) - len(cards))
    st.html(f'<div class="answers">{"".join(cards)}</div>{STYLE}')


def _shown(requests: pd.DataFrame) -> pd.DataFrame:
    """All requests when they are few; of many, the running ones and the last that finished, in order of their ids."""
    if len(requests) <= MAX_CARDS:
        return requests
    running = requests[requests["state"] == "running"].head(MAX_CARDS)
    ended = requests[requests["state"] == "finished"].sort_values("finished_s").tail(MAX_CARDS - len(running))
    return pd.concat([running, ended]).sort_values("request_id")


def _texts(run: JobRun, requests: pd.DataFrame) -> dict[int, str]:
    if requests.empty:
        return {}
    decoder = decoder_of(tokenizer_file_of(lab().store.run(run.run_id)))
    few = requests["request_id"].tolist()
    tokens = lab().store.tokens(run.run_id)
    return decode_all(tokens[tokens["request_id"].isin(few)], decoder)


def _card(row: pd.Series, text: str) -> str:
    state = str(row["state"])
    head = f"{int(row['request_id'])} · {html.escape(state)}"
    prompt = html.escape(_short(str(row["prompt_text"] or ""), 90))
    return (
        f'<div class="answer {html.escape(state)}"><div class="head">{head}</div>'
        f'<div class="prompt">{prompt}</div><div class="text">{html.escape(_short(text, 420))}</div></div>'
    )


def _empty_card() -> str:
    return '<div class="answer"><div class="head">–</div></div>'


def _short(text: str, limit: int) -> str:
    """The text on one line, its end kept when it is too long: the end is where it grows."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"… {line[-limit:]}"


STYLE = """<style>
.answers {display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 0.6rem;}
.answers .answer {border: 1px solid rgba(128,128,128,.3); border-radius: .5rem; padding: .5rem .75rem; height: 9.5rem;
  overflow: hidden; font-size: .9rem; line-height: 1.35;}
.answers .head {font-size: .75rem; opacity: .65;}
.answers .prompt {font-weight: 600; margin: .1rem 0 .25rem; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis;}
.answers .running .text::after {content: "▍"; opacity: .5;}
</style>"""
