"""The lab's words, each explained in a sentence or two: what the figures' axes, the tables and the metrics speak of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word and what it means here."""

    name: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WordGroup:
    """Words that explain each other."""

    title: str
    words: tuple[Word, ...]


def _group(title: str, **meanings: str) -> WordGroup:
    words = tuple(Word(name=name.replace("_", " "), meaning=meaning) for name, meaning in meanings.items())
    return WordGroup(title=title, words=words)


WORD_GROUPS = (
    _group(
        "The engines",
        engine="What decides which requests run at every moment, and where their keys and values are kept.",
        serial="One request at a time, from its first token to its last. The baseline, and the reference for answers.",
        static="A batch is formed once and runs until its longest answer is done. Rows whose answer has ended are "
        "computed on, for nothing; newcomers wait for the next batch.",
        continuous="After every step ended requests leave and waiting ones take their slots, so that a slot never "
        "works for a request that has ended.",
    ),
    _group(
        "A request's way",
        request="A prompt and the permission to answer it with so many tokens. It waits, runs, and finishes.",
        arrival="The moment at which a request meant to come. All waiting counts from here, whenever the engine "
        "looked. Closed: every request is there at the start.",
        queue="The requests that have arrived and have no slot yet.",
        budget="How many new tokens a request may get. A numeric budget is spent to the last token, whatever the model "
        "says, so that counts are exact; `eos` stops where the model ends its answer.",
        prefill="Reading a prompt: all of its tokens in one pass, which also yields the answer's first token.",
        decode="Writing on: one pass yields one more token for every row.",
        delivered="A token counts from the moment the reader could have it. With whole return, that is when the "
        "entire batch was handed over.",
    ),
    _group(
        "How an engine works",
        slot="A place for one request in the batch. As many slots, as many requests at once.",
        lane="A request's row in the slot timeline, fixed when it is admitted. Its slot may move, its lane does not.",
        step="One round of the engine: let newcomers in, prefill them, decode once for all, let the ended leave.",
        **{"pass": "One run of the model over a batch of rows. A step holds one or more."},
        row="A request's line in a pass. Live while its request still wants tokens, dead after that.",
        width="How many columns a pass attends over: as many as its widest row needs.",
        span="What a lane held from one step to another: prefill, decode, dead, or empty.",
    ),
    _group(
        "What is wasted",
        slot_step="One row in one pass that yields a token, wanted or not.",
        dead="A row that is computed although its request has ended, because its batch goes on.",
        padding="Columns of a live row that hold no token of its own: every row is as wide as the widest.",
        position="One column of one row in a pass: the smallest piece of computed work.",
        position_second="Room for one token's keys and values, held for one second.",
        KV_cache="The keys and values of all tokens so far, kept so that nothing has to be computed twice.",
    ),
    _group(
        "Runs",
        run="One recorded pass of one engine over one workload, measured unless it says that it is simulated.",
        workload="The requests of a run: prompts, budgets, arrivals. The same seed gives the same ones to any engine; "
        "the digest is equal only for equal workloads.",
        experiment="Runs that belong together: a pair over the same requests, or repeats.",
        warm_up="One prefill of each prompt length and three decode steps, before the clock starts.",
        percentile="p50 is the median, half of the samples lie below it; p95 has 19 of 20 below it. Linear between "
        "samples, and no p99 from fewer than 100.",
        crashed="The worker died before it could write a result. Whatever it had logged is kept.",
    ),
)
