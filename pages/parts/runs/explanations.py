"""How to read the figures of a run: the same on the page of one run and where runs are compared."""

from __future__ import annotations

from pages.parts.runs.latencies import LATENCY_FIGURES

TIMELINE_WHY = """
Each lane is one place in the batch, from the run's start at the left to its end at the right; the number is the
request that holds it.

- **Prefill** (slate): the prompt is read. It yields the first token. Read in chunks, each chunk is a span of its own.
- **Decode** (green): one more token at every step.
- **Dead** (red, hatched): the request has ended and its row is computed on, because the batch goes on.
- **Empty** (near white): nobody holds the slot.
- **Preempted** (triangle): the request lost its KV blocks here and waits again; what it had is computed anew.

The strip above shows how many requests wait. By step, every step is as wide as any other: that is the schedule. By
second, it is what the schedule cost on this machine.
"""

WASTE_WHY = """
Positions and slot-steps are **counted**. Seconds are an **attribution**: a pass takes its time as a whole, and padding
and dead rows are charged their share of its positions. It says where the time went, not what would be saved without
them. Memory is in **position-seconds**: room for one token's keys and values, held for one second. What holds no token
of a running request is padding, rows that had ended, KV **reserved** for tokens to come, or **block ends**: the
unfilled rest of the last block of each table. **Bucket padding** are the tokens that a CUDA graph computes beyond those
asked for, since it was recorded for a round number of them; they write nowhere.
"""

LATENCY_WHY = "\n".join(f"- **{latency.title}**: {latency.why}" for latency in LATENCY_FIGURES)

PASSES_WHY = """
A pass is one run of the model. Prefill passes read whole prompts and take longer with every token of them; while one
runs, all decoding rows stand still. A decode pass yields one token a row; it reads all weights whatever the number of
rows, so a few more rows cost little, and it attends over as many columns as its widest row needs. A mixed pass does
both: it decodes all rows and reads chunks of prompts in what its budget of tokens leaves, so that nobody stands still.
"""
