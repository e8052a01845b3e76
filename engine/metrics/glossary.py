"""The lab's words, in plain language: everything that a page, a table or an axis says and that is not a metric."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """`meaning` is a sentence or two for a reader who meets the word for the first time."""

    word: str
    meaning: str


def _words(*entries: tuple[str, str]) -> tuple[Word, ...]:
    return tuple(Word(word=word, meaning=meaning) for word, meaning in entries)


WORK = _words(
    ("request", "One prompt and the answer to it. It is waiting, then running, then finished."),
    ("prompt", "The text that a request brings along. The model reads all of it before it says its first token."),
    ("token", "A piece of a word, as the model reads and writes text; roughly three quarters of an English word."),
    (
        "budget",
        "The most new tokens that a request may have. A numeric budget is spent to the last token, so that every "
        "engine does the same work; eos lets the model end by itself.",
    ),
    ("EOS", "End of sequence: the token by which a model says that its answer is complete."),
    (
        "arrival",
        "When a request means to come in. Every wait counts from here, not from when the engine got round to it.",
    ),
    ("closed", "All requests arrive at once, at the start of the run."),
    ("constant", "Requests arrive one by one, all gaps equal."),
    ("poisson", "Requests arrive at random, at a given rate, independently of each other."),
    (
        "gamma",
        "Requests arrive at random, at a given rate, in bursts (coefficient of variation above 1) or more evenly "
        "(below 1).",
    ),
    ("queue", "The requests that have arrived and wait for a slot."),
    ("workload", "All requests of a run, fixed by its configuration and its seed before any engine sees them."),
    (
        "digest",
        "Sixteen characters that stand for a workload. Two runs with the same digest were asked for the same things.",
    ),
    ("seed", "The number that all random choices follow from. The same seed gives the same requests to every engine."),
)

MACHINE = _words(
    (
        "engine",
        "What turns requests into answers: a policy (which rows run in a step), a KV layout (where their keys and "
        "values live) and a way to run them.",
    ),
    ("serial", "The engine that takes one request at a time: what an answer costs without neighbors."),
    ("static", "The engine that forms a batch once and runs it until its slowest request has ended."),
    ("continuous", "The engine that lets requests in and out at every step."),
    (
        "paged",
        "The engine that works as continuous does, over keys and values in blocks: a row is read at its true length.",
    ),
    (
        "chunked",
        "The engine that works as paged does, with at most so many tokens a step: rows decode first, and prompts are "
        "read in chunks with what is left.",
    ),
    ("batch", "The rows that run together in one pass."),
    ("slot", "A place for one running request: one row of a pass and its room in the KV cache."),
    ("lane", "A request's row in the drawing. It is fixed at admission, while the slot may change under it."),
    ("step", "One round of the engine: admit, prefill the newcomers, decode once, let the ended leave."),
    ("pass", "One run of the model, over all its rows at once. A step holds one or two."),
    ("prefill", "The pass that reads prompts. It yields each request's first token."),
    ("decode", "The pass that yields one more token for every row."),
    ("mixed", "A pass that does both: one more token for each row that decodes, and chunks of prompts beside them."),
    ("chunk", "A piece of a prompt that is read in one pass. Only the last one yields a token."),
    ("span", "What a lane held from one pass to another: prefill, decode, dead or empty."),
    ("dead", "A row whose request has ended but which is computed all the same, until its batch has ended."),
    ("empty", "A lane that holds no request."),
    ("slot-step", "One row in one pass that yields a token, the prefill's included."),
    ("width", "How many columns a pass attends over: as many as its widest row needs."),
    ("padding", "Columns of a row that hold none of its tokens; computed because another row is wider."),
    ("position", "One column of one row: the place of one token."),
    ("KV cache", "The keys and values of all tokens so far, kept so that a pass need not read the whole text again."),
    (
        "KV layout",
        "How requests share the KV cache: padded (a batch of equally long rows), slots (rows of one fixed width) or "
        "paged (blocks).",
    ),
    ("block", "Room for the keys and values of a few tokens, 16 unless set otherwise; the unit of paged memory."),
    ("block table", "The list of a request's blocks, in the order of its tokens. They may lie anywhere in the pool."),
    ("pool", "All blocks of a run. A block belongs to one request at a time, or is free."),
    ("watermark", "Blocks that newcomers have to leave free, a hundredth of the pool, so that those who run can grow."),
    (
        "preempt",
        "To take all blocks back from the request that was admitted last, when one that runs needs a block and none is "
        "free. It waits again, first in the queue, and what it had computed is computed anew.",
    ),
    ("fragment", "The end of a request's last block that holds no token yet."),
    ("form", "How a static batch comes together: from what has arrived, when it is full, or after a timeout."),
    ("returned whole", "Answers are handed over when their whole batch has ended, instead of token by token."),
    ("produced", "When the device had a token."),
    ("delivered", "When a reader could have a token: after its copy to the host, or with its whole batch."),
    ("greedy", "Always the most likely token: temperature 0. The same prompt then always gives the same answer."),
    ("temperature", "How freely tokens are drawn: 0 is greedy, 1 follows the model's own probabilities."),
    ("top-k", "Draw from the k most likely tokens only; 0 for all."),
    ("top-p", "Draw from the most likely tokens that together have this probability; 1 for all."),
)

MEASURING = _words(
    ("run", "One recorded pass over one workload by one engine."),
    ("snapshot", "A copy of the store as it was at one moment. Questions are asked of it, and disturb nothing."),
    (
        "experiment",
        "Several runs that belong together: a pair on the same requests, repeats, or a plan of points such as a sweep. "
        "How each point ended is kept, failures too; one that was cut off can be resumed.",
    ),
    ("point", "One run that an experiment asks for, as often as it has repeats: a batch size at a prompt length."),
    ("sweep", "An experiment over prompt lengths and batch sizes: each point is one batch of B equal requests."),
    ("load test", "An experiment of engines at several rates of arriving requests, the same trace for each engine."),
    ("offered rate", "Requests a second that really came: the gaps of the trace over the time that they took."),
    (
        "achieved rate",
        "Requests a second that were served in the steady window, those at its edges with the share of their tokens "
        "that came inside.",
    ),
    (
        "steady window",
        "The part of a run between its ramp, in which slots fill, and its tail, in which they empty. Rates under load "
        "are counted in it alone.",
    ),
    (
        "capacity",
        "What an engine serves a second when somebody always waits: the achieved rate of a run whose requests are all "
        "there from the start. Confirmed when the queue grows at 1.1 times it and does not at 0.9 times it, and no "
        "rate of the same test served over a twentieth more.",
    ),
    ("knee", "The rate from which on the queue grows, and waits with it: the highest that is held lies just below."),
    (
        "left behind",
        "Requests that waited when the engine last filled its slots, and got none. When they become more, or never "
        "become few, the queue grows.",
    ),
    (
        "Little's law",
        "The mean number of requests in a system is their rate times the mean time each is there: half a request a "
        "second, each there for 26 s, makes 13 at a time.",
    ),
    (
        "goodput",
        "What is served within the limits that a reader sets for the first token and for the time between tokens, in "
        "requests or in tokens a second.",
    ),
    ("repeats", "The same point run again. All points are run once before any is run again, so that drift hits all."),
    ("spread", "Of repeats: highest less lowest, as a share of the median."),
    (
        "ratio repeat by repeat",
        "One engine's figure over another's of the same repeat: what slows the machine over both runs mostly cancels. "
        "The order is always the same, so that what drifts within a repeat does not cancel.",
    ),
    (
        "told apart",
        "Of two engines over six or more repeats that differ: so many have the ratio on one side of 1 that chance "
        "alone would do the like at most one time in 20, by a two-sided sign test. Fewer repeats cannot tell.",
    ),
    ("serial time", "B times what one request alone took: what B requests would take one after another."),
    ("speed-up", "Serial time over the time of the batch."),
    ("ragged batch", "A batch of prompts of mixed lengths and, where asked for, of mixed budgets."),
    (
        "control",
        "A uniform batch of as many rows as a ragged one, each with its longest prompt and its longest budget: tensors "
        "of the same shape, and every position a real token.",
    ),
    ("warm-up", "A prefill of each prompt length and three decode passes before the clock starts."),
    ("sync", "Timing that waits for the device after each pass."),
    ("eager", "Every operation of the model is issued by itself, as published measurements of these engines did."),
    (
        "graph",
        "A pass is recorded once as a CUDA graph, its operations fused where that helps, and replayed as a whole: the "
        "CPU issues one thing instead of hundreds. What could not be recorded runs eager, and the run says so.",
    ),
    (
        "bucket",
        "A size that passes were recorded for. A pass takes the least that holds it; what pads it is written nowhere.",
    ),
    ("async", "Timing by the device's own events, with no stop between passes. On a CPU it is the same as sync."),
    ("share", "A part of a whole as a number from 0 to 1; shown in percent."),
    (
        "percentile",
        "The value that a given share of the samples lies below, linear between samples; n is their number.",
    ),
    ("CDF", "For every value, the share of samples that are not above it. The further left a line, the faster."),
    (
        "random weights",
        "A model of real shape whose weights were drawn at random: its speed is real, its text is noise.",
    ),
    (
        "prediction",
        "A figure that was expected of a run or an experiment: a range and a reason, written before it began. It "
        "closes when the first run starts, stands as it was written, and is graded afterward.",
    ),
    ("held", "Of a prediction: what was measured lies within its range, ends included. Otherwise it missed."),
    ("watched", "The run's page was open while it ran, and may have cost it a little time."),
    ("crashed", "The run has no result and nobody is working on it: its process ended. What it had logged is kept."),
    (
        "out of memory",
        "A pass asked for more memory than was free. The run ends there and says how much was asked for.",
    ),
)

CEILINGS = _words(
    ("ceiling", "What a machine can do at best: bytes read a second, operations a second, kernels issued a second."),
    (
        "calibration",
        "A machine's ceilings as measured by the lab, and passes of known sizes, from which the simulator reckons.",
    ),
    ("FLOP", "One operation on numbers: a multiplication or an addition. A weight costs two for each token."),
    ("intensity", "FLOP for each byte read. A decode pass of one row does about one, a prefill hundreds."),
    (
        "roofline",
        "A drawing of speed over intensity: below a slope (what can be read) and a flat top (what can be computed).",
    ),
    ("balance point", "The intensity at which a machine takes as long to read as to compute: where its roof bends."),
    (
        "bend",
        "The batch size from which one more row is no longer nearly free, since arithmetic or each row's own keys and "
        "values have caught up with reading the weights.",
    ),
    ("MBU", "Model bandwidth utilization: the share of the read ceiling that a pass's weights and cache came to."),
    ("MFU", "Model FLOP utilization: the share of the arithmetic ceiling that a pass's tokens came to."),
    (
        "launch-bound",
        "A pass that waits for the host to issue its kernels: it takes as long for one row as for many.",
    ),
    (
        "free until",
        "The batch size at which a step reads as much of keys and values as of weights. Up to about there a request "
        "more costs its neighbors little.",
    ),
    ("memory wall", "The most sequences whose keys and values fit beside the weights."),
    (
        "simulated",
        "Reckoned by the engine's own schedule under a virtual clock, with passes as long as a formula says: nothing "
        "ran.",
    ),
)

GLOSSARY: tuple[Word, ...] = (*WORK, *MACHINE, *MEASURING, *CEILINGS)
