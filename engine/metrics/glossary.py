"""The glossary: the terms of the lab's pages, tables and figures that are not metrics."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.presets import PRESETS
from engine.workload.profiles import PROFILES


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One term. `meaning` explains it in a sentence or two to users who are new to it."""

    word: str
    meaning: str


def _terms(*entries: tuple[str, str]) -> tuple[Word, ...]:
    return tuple(Word(word=word, meaning=meaning) for word, meaning in entries)


WORK = _terms(
    ("request", "One prompt and its answer. A request waits, runs, and finishes."),
    ("prompt", "The input text of a request. The model prefills all of it before it generates the first token."),
    ("token", "The unit in which a model reads and writes text; roughly three quarters of an English word."),
    (
        "budget",
        "The most output tokens of a request (max_new_tokens). A numeric budget is always used up, so every engine "
        "does the same work; eos lets the model end the answer.",
    ),
    ("EOS", "End of sequence: the token with which a model ends its answer."),
    (
        "arrival",
        "When a request is meant to arrive. All latencies count from this time, so queueing is included.",
    ),
    ("closed", "All requests arrive at once, at the start of the run."),
    ("constant", "Requests arrive one by one at equal intervals."),
    ("poisson", "Requests arrive at random and independently, at a given mean rate."),
    (
        "gamma",
        "Requests arrive at random at a given mean rate, in bursts (coefficient of variation above 1) or more evenly "
        "(below 1).",
    ),
    ("queue", "The requests that have arrived and wait for a slot."),
    ("workload", "All requests of a run. Its configuration and seed fix them before any engine runs."),
    ("digest", "Sixteen characters that identify a workload. Runs with the same digest have identical requests."),
    ("seed", "The number from which all random choices follow. The same seed gives every engine the same requests."),
)

MACHINE = _terms(
    ("engine", "A scheduling policy (which rows run in a step) combined with a KV layout (how their KV is stored)."),
    *((preset.name, preset.meaning) for preset in PRESETS.values()),
    ("batch", "The rows that run together in one pass."),
    ("slot", "A place for one running request: one row of a pass, and its KV memory."),
    ("lane", "A request's row in the timeline. It is fixed at admission, while the slot may change."),
    ("step", "One iteration of the engine: admit, prefill newly admitted requests, decode once, evict."),
    ("pass", "One forward pass of the model over all its rows. A step has one or two."),
    ("prefill", "The pass that processes prompts. It yields each request's first token."),
    ("decode", "The pass that yields one more token for every row."),
    ("mixed", "A pass with decode rows and prompt chunks: one more token for each decode row, and part of a prefill."),
    ("chunk", "A part of a prompt that one pass prefills. Only the last chunk yields a token."),
    ("span", "What a lane holds from one pass to another: prefill, decode, dead or empty."),
    ("dead", "A row whose request has ended but which is still computed until its batch ends."),
    ("empty", "A lane without a request."),
    ("slot-step", "One row in one pass that yields a token, including the prefill's."),
    ("width", "The number of columns that a pass attends over: as many as its widest row needs."),
    ("padding", "Columns of a row without a token of its own, computed because another row is wider."),
    ("position", "One column of one row: the place of one token."),
    ("KV cache", "The keys and values of all tokens so far, kept so that a pass need not compute them again."),
    (
        "KV layout",
        "How requests share KV memory: padded (a batch of equally wide rows), slots (rows of one fixed width) or paged "
        "(blocks).",
    ),
    ("reserved KV", "KV memory allocated to requests, whether or not it holds tokens yet."),
    ("block", "KV memory for a few tokens (16 by default). Paged KV memory is allocated in blocks."),
    ("block table", "The list of a request's blocks in the order of its tokens. They may be anywhere in the pool."),
    ("pool", "All KV blocks of a run. Each block belongs to one request or is free."),
    (
        "watermark",
        "The blocks that admissions leave free, 1\u00a0% of the pool, so that running requests can grow.",
    ),
    (
        "preempt",
        "To free all blocks of the request admitted last, because a running request needs a block and none is free. "
        "The preempted request goes to the front of the queue, and its tokens are recomputed.",
    ),
    ("fragment", "The unfilled end of a request's last block (internal fragmentation)."),
    ("form", "When a static batch starts: with the requests that have arrived, when it is full, or after a timeout."),
    (
        "response mode",
        "stream: tokens are delivered one by one. whole: answers are delivered in full when their batch ends (full "
        "response mode).",
    ),
    ("produced", "The time at which the device had a token."),
    ("delivered", "The time at which a client could receive a token: after its copy to the host, or with its batch."),
    ("greedy", "Always the most likely token: temperature 0. The same prompt then always gives the same answer."),
    ("temperature", "How randomly tokens are drawn: 0 is greedy, 1 follows the model's own probabilities."),
    ("top-k", "Draw only from the k most likely tokens; 0 for all."),
    ("top-p", "Draw only from the most likely tokens whose probabilities add up to p; 1 for all."),
)

MEASURING = _terms(
    ("run", "One engine processing one workload, recorded."),
    (
        "plan",
        "The schedule of a run before it starts: the engine's own scheduler on a clock that counts forward passes, "
        "without the model. Bench draws it, and the measured timeline beside it.",
    ),
    (
        "profile",
        "Prompt and output lengths of a published trace, cut to five prompt lengths in equal shares and a range of "
        "output tokens.",
    ),
    *((f"profile: {profile.name}", f"{profile.meaning} {profile.text}") for profile in PROFILES),
    ("snapshot", "A read-only copy of the store at one moment. Queries run on it and do not disturb the store."),
    (
        "experiment",
        "Several runs that belong together: engines on the same requests, repeats, or the points of a sweep. "
        "The result of each point is kept, failures included. An interrupted experiment can be resumed.",
    ),
    (
        "point",
        "One configuration of an experiment, such as a batch size at a prompt length. It runs once per repeat.",
    ),
    ("sweep", "An experiment over prompt lengths and batch sizes. Each point is one batch of B equal requests."),
    ("load test", "An experiment that runs engines at several arrival rates, with the same trace for each engine."),
    (
        "offered rate",
        "Requests per second in the arrival trace: its number of gaps over their total time. By chance it differs from "
        "the requested rate; --rescale-arrivals makes both equal.",
    ),
    (
        "achieved rate",
        "Requests per second served in the steady window. A request at its edge counts by the share of its tokens "
        "inside.",
    ),
    (
        "steady window",
        "The part of a run after the ramp, in which slots fill, and before the tail, in which they empty. Rates under "
        "load are measured only here.",
    ),
    (
        "capacity",
        "The request rate that an engine serves when requests always wait: the achieved rate of a run in which all "
        "arrive at once. Confirmed if the queue grows at 1.1 times this rate and not at 0.9 times, and no rate of the "
        "test achieved over 5 % more.",
    ),
    (
        "saturation point",
        "The arrival rate above which the queue grows, and waiting times with it (`knee` in JSON).",
    ),
    (
        "backlog",
        "Requests left waiting when the engine last filled its slots. If the backlog rises, or never gets small, the "
        "queue grows.",
    ),
    (
        "Little's law",
        "The mean number of requests in a system is their arrival rate times their mean time in it: 0.5 requests per "
        "second, 26 s each, are 13 at a time.",
    ),
    (
        "goodput",
        "Requests or tokens per second served within the limits set for time to first token and time per output token.",
    ),
    (
        "repeats",
        "Several runs of each point, interleaved, so slow drift affects all points about equally.",
    ),
    ("spread", "Of repeats: (highest - lowest) / median."),
    (
        "ratio repeat by repeat",
        "One engine's figure over another's in the same repeat, so a slowdown of the machine over both runs mostly "
        "cancels. Drift within a repeat does not, because the order of the engines is always the same.",
    ),
    (
        "clear difference",
        "Over at least six repeats, the ratio of two engines is on one side of 1 so often that "
        "chance explains it at most 1 time in 20 (two-sided sign test). Fewer repeats cannot show it.",
    ),
    ("serial time", "B times the time of a batch of one: how long B requests take one after another."),
    ("speed-up", "Serial time over the time of the batch."),
    ("ragged batch", "A batch of prompts of different lengths and, if set, different budgets."),
    (
        "control",
        "A uniform batch with as many rows as a ragged batch, each with the longest prompt and the longest budget. Its "
        "tensors have the same shape, and every position is a real token.",
    ),
    ("warm-up", "A prefill of each prompt length and three decode passes before the clock starts."),
    ("sync", "Timing mode that waits for the device after each pass."),
    (
        "async",
        "Timing mode that uses the device's own events and never stops between passes. On a CPU it equals sync.",
    ),
    ("eager", "Execution mode that issues every operation of the model separately."),
    (
        "graph",
        "Execution mode that captures a pass once as a CUDA graph, with fused operations, and replays it as a whole: "
        "one launch instead of hundreds. Passes that cannot be captured run eager, and the run notes it.",
    ),
    (
        "bucket",
        "A size for which a CUDA graph was captured. A pass uses the smallest bucket that holds it; the padding is "
        "discarded.",
    ),
    ("share", "A part of a whole as a number from 0 to 1, shown in percent."),
    ("percentile", "The value below which a given share of samples is, interpolated linearly; n is their number."),
    ("CDF", "For every value, the share of samples at or below it. The further left the line, the faster."),
    (
        "random weights",
        "A model with a real architecture and randomly drawn weights: its speed is real, its text is meaningless.",
    ),
    (
        "prediction",
        "A range and a reason, written before a run or an experiment begins. It closes when the first run starts, "
        "cannot be changed, and is graded afterward.",
    ),
    ("held", "Of a prediction: the measured value is within its range, ends included. Otherwise it missed."),
    ("watched", "The run's live page was open while it ran, which may have slowed it a little."),
    ("crashed", "The run has no result and its process has ended. Everything logged until then is kept."),
    ("out of memory", "A pass needed more memory than was free. The run ends and records how much it asked for."),
)

CEILINGS = _terms(
    ("ceiling", "The most a machine can do: bytes read per second, operations per second, kernels issued per second."),
    (
        "calibration",
        "A machine's measured ceilings, and timed passes of known sizes. The simulator estimates step times from them. "
        "A short one takes 20 seconds: few shapes, measured once.",
    ),
    ("FLOP", "One floating-point operation: a multiplication or an addition. Each weight costs two per token."),
    ("intensity", "FLOP per byte read. A decode pass of one row has about 1, a prefill hundreds."),
    (
        "roofline",
        "Attainable speed over intensity: a slope limited by memory reads, a flat top limited by compute.",
    ),
    (
        "balance point",
        "The intensity at which reading and computing take equally long: where the roofline turns from slope to flat.",
    ),
    (
        "bend",
        "The batch size above which one more row is no longer nearly free, because compute or the rows' own KV has "
        "caught up with reading the weights.",
    ),
    ("MBU", "Model bandwidth utilization: the share of the read ceiling that a pass reaches with weights and KV."),
    ("MFU", "Model FLOP utilization: the share of the compute ceiling that a pass reaches with its tokens."),
    ("launch-bound", "A pass limited by the host issuing kernels: it takes as long for one row as for many."),
    (
        "free until",
        "The batch size at which a step reads as much KV as weights. Up to about there, one more request costs the "
        "others little.",
    ),
    ("memory wall", "The most sequences whose KV fits into memory next to the weights."),
    (
        "tensor parallelism",
        "Several GPUs share each layer of a model: each holds a part of the weights and KV heads. Steps get shorter, "
        "but every layer waits for two all-reduces.",
    ),
    (
        "all-reduce",
        "The GPUs that share a layer add up their partial results, so that each has the sum. It takes a latency, and "
        "the bytes over the link's rate.",
    ),
    (
        "simulated",
        "Run by the engine's own scheduler on a virtual clock, with step times from a hardware model. No model runs.",
    ),
)

GLOSSARY: tuple[Word, ...] = (*WORK, *MACHINE, *MEASURING, *CEILINGS)
