"""The live view of a run: four tiles, the slot timeline, and the answers so far.

All data comes from the store, which reads the run log with a delay of a fraction of a second. If the number of steps is
known in advance, the timeline's axis has this length from the start, so that it never rescales.
"""

from __future__ import annotations

import contextlib
import html
from functools import lru_cache

import pandas as pd
import streamlit as st

from engine.core.format import count, number
from engine.launcher.job import Job, JobRun
from engine.runlog.schema import WATCHED_FILE
from pages.figures.timeline.preemptions import preemptions_of
from pages.figures.timeline.timeline import round_end
from pages.parts.bench.live_timeline import live_timeline
from pages.parts.bench.plan import planned_steps
from pages.parts.runs.answers import Decoder, decode_all, decoder_of
from pages.parts.shared.lab import is_dark, lab
from store.queries.downsampled_passes import downsampled_passes

MAX_CARDS = 12  # answers that are shown


def mark_watched(run: JobRun) -> None:
    """Mark in the run's folder that a live view used the machine while it ran."""
    if run.state == "running" and run.has_log:
        (run.folder / WATCHED_FILE).touch()


def live_passes(run: JobRun) -> pd.DataFrame:
    """The passes of the current run so far."""
    return downsampled_passes(lab().store.cursor(), run.run_id) if run.has_log else pd.DataFrame()


def draw_tiles(run: JobRun, passes: pd.DataFrame) -> None:
    """Finished requests, output tokens, tokens/s so far, and waiting requests; two in a row on a phone."""
    waiting = int(passes["queue_depth"].iloc[-1]) if len(passes) else None
    rate = run.output_tokens / run.elapsed_s if run.elapsed_s > 0 else None
    tiles = (
        ("Requests finished", f"{count(run.finished_requests)} of {count(run.requests)}"),
        ("Output tokens", count(run.output_tokens)),
        ("Tokens/s", number(rate)),
        ("Requests waiting", count(waiting)),
    )
    with st.container(horizontal=True, gap="small"):
        for label, value in tiles:
            st.metric(label, value, width=145)


def draw_timelines(job: Job, passes: pd.DataFrame) -> None:
    """A timeline for each run of the job, on one axis; `passes` are the current run's.

    A run that has not begun has an empty timeline. The timeline of a finished run is drawn once and kept.
    """
    current = job.current
    store = lab().store
    spans, preempted = pd.DataFrame(), pd.DataFrame()
    if current and current.has_log:
        spans, preempted = store.runs.spans(current.run_id), preemptions_of(store.runs.events(current.run_id))
    window = _window(job, spans)
    pictures = [
        _final_picture(run.run_id, run.config.engine, run.config.num_slots, window, is_dark())
        if run.state == "done" and run.has_log
        else live_timeline(
            spans if run is current else pd.DataFrame(),
            passes if run is current else pd.DataFrame(),
            window=window,
            num_lanes=run.config.num_slots,
            title=run.config.engine,
            preemptions=preempted if run is current else None,
            note="Starts next." if run.state == "queued" else "No request has a slot yet.",
            dark=is_dark(),
        )
        for run in job.runs
    ]
    st.html("".join(pictures))


def _final_picture(run_id: str, engine: str, slots: int, window: tuple[float, float], dark: bool) -> str:
    """The timeline of a finished run; drawn once a visit, as soon as the store has all of the run."""
    key = ("timeline", run_id, window, dark)
    kept: dict[object, str] = st.session_state.setdefault("lab.live_pictures", {})
    if key in kept:
        return kept[key]
    store = lab().store
    picture = live_timeline(
        store.runs.spans(run_id),
        downsampled_passes(store.cursor(), run_id),
        window=window,
        num_lanes=slots,
        title=engine,
        preemptions=preemptions_of(store.runs.events(run_id)),
        dark=dark,
    )
    with contextlib.suppress(KeyError):  # deleted meanwhile
        if store.runs.get(run_id)["status"] != "running":
            kept[key] = picture
    return picture


def _window(job: Job, spans: pd.DataFrame) -> tuple[float, float]:
    """The axis in steps: the longest schedule, or a round number above the newest step.

    The latter is for schedules that are unknown, and for runs that take longer than planned because of preemptions.
    """
    planned = [planned_steps(run.config) for run in job.runs]
    steps = float(max((n for n in planned if n is not None), default=1))
    ended = [run.run_id for run in job.runs if run.state == "done" and run.has_log]
    frames = [spans, *(lab().store.runs.spans(run_id) for run_id in ended)]
    started = [frame[["start_step", "end_step"]].max().max() for frame in frames if not frame.empty]
    newest = float(max(started, default=0.0))
    if None not in planned and newest <= steps:
        return (0.0, steps)
    return (0.0, round_end(max(newest, steps)))


@lru_cache(maxsize=64)
def _decoder(run_id: str) -> Decoder:
    return decoder_of(lab().store.runs.get(run_id))


def draw_answers(run: JobRun) -> None:
    """A card for each request, or for the running ones of many: its prompt and its answer so far."""
    if not run.has_log:
        requests, texts = pd.DataFrame(), {}
    else:
        requests = _shown(lab().store.runs.requests(run.run_id))
        texts = _texts(run, requests)
    st.markdown("**Answers so far**")
    cards = [_card(row, texts.get(int(row["request_id"]), "")) for _, row in requests.iterrows()]
    cards += [_empty_card()] * (min(MAX_CARDS, run.requests) - len(cards))
    st.html(f'<div class="answers">{"".join(cards)}</div>{STYLE}')


def _shown(requests: pd.DataFrame) -> pd.DataFrame:
    """All requests, or of many those that run and those that finished last, in order of their ids."""
    if len(requests) <= MAX_CARDS:
        return requests
    begun = requests["admitted_s"].notna() & (requests["state"] != "finished")  # a preempted request is waiting again
    running = requests[(requests["state"] == "running") | begun].head(MAX_CARDS)
    ended = requests[requests["state"] == "finished"].sort_values("finished_s").tail(MAX_CARDS - len(running))
    return pd.concat([running, ended]).sort_values("request_id")


def _texts(run: JobRun, requests: pd.DataFrame) -> dict[int, str]:
    if requests.empty:
        return {}
    few = requests["request_id"].tolist()
    return decode_all(lab().store.runs.tokens(run.run_id, of=few), _decoder(run.run_id))


def _card(row: pd.Series, text: str) -> str:
    state = str(row["state"])
    head = f"{int(row['request_id'])} · {html.escape(_state_text(row))}"
    prompt = html.escape(_short(str(row["prompt_text"] or ""), 90))
    return (
        f'<div class="answer {html.escape(state)}"><div class="head">{head}</div>'
        f'<div class="prompt">{prompt}</div><div class="text">{html.escape(_short(text, 420))}</div></div>'
    )


def _state_text(row: pd.Series) -> str:
    """The request's state, and how often it was preempted."""
    times = row.get("preemptions")
    if times is None or pd.isna(times) or not times:
        return str(row["state"])
    preempted = "preempted once" if times == 1 else f"preempted {int(times)} times"
    return f"{'waiting again' if row['state'] == 'waiting' else row['state']}, {preempted}"


def _empty_card() -> str:
    return '<div class="answer"><div class="head">–</div></div>'


def _short(text: str, limit: int) -> str:
    """The text on one line; of long text the end, where new text appears."""
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
