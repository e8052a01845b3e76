"""Words of the screens beside the lab's own: what figures call the parts of memory, and options as other engines say.

The lab's own words are in engine.metrics.glossary. The options' names are those of vLLM, which most people know them by.
"""

from __future__ import annotations

from engine.metrics.glossary import Word

FIGURES = (
    Word(
        word="MLP activation",
        meaning="What a layer's MLP holds while a pass goes through it: gate, up-projection and their product, each as "
        "many rows as the pass has tokens and as wide as the MLP. A large prefill often ends in it.",
    ),
    Word(
        word="fp32 copy",
        meaning="The logits of a step once more, four bytes each, as a sampler makes them to draw a token. Greedy runs "
        "of this lab make none.",
    ),
    Word(
        word="linear scaling",
        meaning="In a sweep: B times the decode rate of one row, the rate if a step took as long with B rows as with "
        "one. A series scales linearly up to the last batch that reaches 80\u00a0% of it.",
    ),
    Word(word="block ends", meaning="What the figures call fragments: the ends of last blocks that hold no token yet."),
    Word(
        word="fragmentation",
        meaning="KV memory that is lost to the way in which it is handed out. With blocks it is the end of each "
        "request's last block, and so less than a block a request; with slots it is all reserved KV memory.",
    ),
    Word(
        word="reserved",
        meaning="KV memory held for tokens that may still come: a slot is as wide as the longest request can become.",
    ),
    Word(
        word="preemption by recompute",
        meaning="The way in which the lab preempts: a request's keys and values are dropped and computed anew when its "
        "turn comes again, instead of being copied away and back. Its tokens so far are kept.",
    ),
    Word(
        word="chunked prefill",
        meaning="Reading a prompt in pieces over several passes, beside the rows that decode, so that nobody stands "
        "still for long while a long prompt is read.",
    ),
    Word(
        word="CUDA graph",
        meaning="A recording of all the work that one pass gives to a GPU. Replaying it takes one launch instead of "
        "hundreds, which is most of a small pass's time.",
    ),
    Word(
        word="bucket padding",
        meaning="Tokens that a CUDA graph computes beyond those of its pass, since it was recorded for a rounder "
        "number of them.",
    ),
    Word(
        word="late EOS",
        meaning="In async timing a pass is issued before the tokens of the one before it are known. A request whose "
        "end of sequence was among them is computed once more: that token is dropped.",
    ),
    Word(
        word="discarded row-step",
        meaning="A row computed once more after a late EOS. At most one a request; the ledger counts it as dead.",
    ),
)

OPTIONS = (
    Word(word="max-num-seqs", meaning="Slots: how many requests run at once. The size of a static batch."),
    Word(
        word="max-num-batched-tokens",
        meaning="How many tokens a step of the chunked engine computes at most, decoding rows and chunks together. "
        "Small values bound the stall that a long prompt makes; large ones read prompts sooner.",
    ),
    Word(
        word="enable-chunked-prefill",
        meaning="Here a choice of engine: chunked reads prompts in chunks, paged reads them whole.",
    ),
    Word(
        word="block-size",
        meaning="How many token positions a block of KV memory holds. Small blocks leave less unfilled, large ones "
        "make shorter block tables.",
    ),
    Word(
        word="gpu-memory-utilization",
        meaning="The share of a GPU's memory that a run may take: weights, activations and the KV pool together.",
    ),
    Word(
        word="pool-gib",
        meaning="A cap on the KV pool, in GiB. A small pool on purpose makes paged engines preempt, and others end as "
        "out of memory.",
    ),
)
