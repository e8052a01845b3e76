"""Terms on screen besides the lab's own: the parts of memory in figures, and options by the names that vLLM uses.

The lab's own terms are in engine.metrics.glossary.
"""

from __future__ import annotations

from engine.metrics.glossary import Word

FIGURES = (
    Word(
        word="MLP activation",
        meaning="Memory of a layer's MLP during a pass: gate, up-projection and their product, each with a row per "
        "token of the pass and as wide as the MLP. It is often what a large prefill runs out of memory with.",
    ),
    Word(
        word="fp32 copy",
        meaning="A copy of a step's logits in fp32, which a sampler makes to draw a token. Greedy runs of this lab "
        "make none.",
    ),
    Word(
        word="linear scaling",
        meaning="In a sweep: B times the decode rate of one row, the rate if a step took as long with B rows as with "
        "one. A series scales linearly up to the last batch that reaches 80\u00a0% of it.",
    ),
    Word(word="block ends", meaning="Fragments in figures: the ends of last blocks that hold no token yet."),
    Word(
        word="fragmentation",
        meaning="KV memory lost to the way it is allocated. With blocks it is the unfilled end of each request's last "
        "block, less than one block per request; with slots it is all reserved memory.",
    ),
    Word(
        word="reserved",
        meaning="KV memory kept free for tokens that may still come. A slot reserves as much as the longest possible "
        "request needs.",
    ),
    Word(
        word="preemption by recompute",
        meaning="How the lab preempts: a request's keys and values are dropped and recomputed when it runs again, not "
        "copied to the host and back. Its tokens so far are kept.",
    ),
    Word(
        word="chunked prefill",
        meaning="Prefill of a prompt in pieces, over several passes and beside decoding rows, so that a long prompt "
        "does not stall other requests.",
    ),
    Word(
        word="CUDA graph",
        meaning="A recording of all GPU work of one pass. Replaying it takes one launch instead of hundreds; launches "
        "are most of a small pass's time.",
    ),
    Word(
        word="bucket padding",
        meaning="Tokens that a CUDA graph computes beyond those of its pass: it was captured for a larger size.",
    ),
    Word(
        word="late EOS",
        meaning="With async timing, a pass is issued before the tokens of the previous pass are known. If one of them "
        "was an end of sequence, its request is computed once more, and that token is dropped.",
    ),
    Word(
        word="discarded row-step",
        meaning="A row computed once more after a late EOS; at most one per request. It counts as dead.",
    ),
)

OPTIONS = (
    Word(word="max-num-seqs", meaning="Slots: how many requests run at once; the size of a static batch."),
    Word(
        word="max-num-batched-tokens",
        meaning="The most tokens that a step of the chunked engine computes, decoding rows and chunks together. Small "
        "values limit the stall from a long prompt; large values prefill faster.",
    ),
    Word(
        word="enable-chunked-prefill",
        meaning="Here a choice of engine: chunked prefills in chunks, paged prefills whole prompts.",
    ),
    Word(
        word="block-size",
        meaning="Token positions per block of KV memory. Small blocks leave less unfilled; large blocks make shorter "
        "block tables.",
    ),
    Word(
        word="gpu-memory-utilization",
        meaning="The share of a GPU's memory that a run may use, for weights, activations and the KV pool together.",
    ),
    Word(
        word="pool-gib",
        meaning="A cap on the KV pool, in GiB. A deliberately small pool makes paged engines preempt and other engines "
        "run out of memory.",
    ),
)
