"""Workload profiles: prompt and output lengths of published traces, by use.

Each trace is cut to eight numbers: the prompt lengths at its 10th, 30th, 50th, 70th and 90th percentile, each of which
stands for a fifth of the requests, and the quartiles of its output lengths. Numbers were counted in the published
files, in the tokens of the trace's own tokenizer. What a profile does not keep: the tails, the relation between a
request's prompt and its output, arrivals, and shared prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.format import exact

PROMPT_PERCENTILES = (10, 30, 50, 70, 90)
REQUESTS = 10  # two of each prompt length
SPLITWISE = "Patel et al., Splitwise, ISCA 2024"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadProfile:
    """`prompt_tokens` are the percentiles of PROMPT_PERCENTILES, `output_tokens` the quartiles.

    `requests` is how many the trace has, `source` who published it, `file` where the lengths were counted.
    """

    name: str
    meaning: str
    prompt_tokens: tuple[int, int, int, int, int]
    output_tokens: tuple[int, int, int]
    requests: int
    source: str
    file: str

    @property
    def median_prompt_tokens(self) -> int:
        return self.prompt_tokens[len(self.prompt_tokens) // 2]

    @property
    def median_output_tokens(self) -> int:
        return self.output_tokens[1]

    @property
    def longest_tokens(self) -> int:
        """The context that the longest request needs."""
        return self.prompt_tokens[-1] + self.output_tokens[-1]

    @property
    def text(self) -> str:
        """`Median 1,020 tokens in, 129 out, of 19,366 requests: Azure LLM inference trace 2023 … .`"""
        return (
            f"Median {self.median_prompt_tokens:,} tokens in, {self.median_output_tokens:,} out, of "
            f"{self.requests:,} requests: {self.source}."
        )


PROFILES = (
    WorkloadProfile(
        name="Chat",
        meaning="Conversation with an assistant: mixed prompts, answers from a line to a page.",
        prompt_tokens=(207, 403, 1020, 1130, 2734),
        output_tokens=(85, 129, 395),
        requests=19_366,
        source=f"Azure LLM inference trace 2023, conversation ({SPLITWISE})",
        file="AzureLLMInferenceTrace_conv.csv of Azure/AzurePublicDataset",
    ),
    WorkloadProfile(
        name="RAG",
        meaning="Answers from retrieved passages: long prompts of similar length, short answers.",
        prompt_tokens=(1110, 2879, 3139, 3363, 3958),
        output_tokens=(131, 234, 385),
        requests=7106,
        source="RAGPulse, a week of a university's question service (Wang et al., arXiv 2511.12979)",
        file="0_trace.jsonl of flashserve/RAGPulse",
    ),
    WorkloadProfile(
        name="Summarization",
        meaning="Scientific articles cut to 4,096 tokens, and their abstracts.",
        prompt_tokens=(1242, 2150, 2730, 3249, 3702),
        output_tokens=(115, 167, 242),
        requests=28_257,
        source="arXiv summarization lengths of Vidur, up to 4,096 tokens (Agrawal et al., MLSys 2024)",
        file="arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv of microsoft/vidur",
    ),
    WorkloadProfile(
        name="Code",
        meaning="Code completion: long prompts, a few tokens of output.",
        prompt_tokens=(147, 770, 1469, 2433, 5187),
        output_tokens=(9, 13, 24),
        requests=8819,
        source=f"Azure LLM inference trace 2023, code ({SPLITWISE})",
        file="AzureLLMInferenceTrace_code.csv of Azure/AzurePublicDataset",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaledProfile:
    """A profile's lengths, all times `scale` where the model's context does not hold the longest request."""

    profile: WorkloadProfile
    scale: float

    @property
    def prompts(self) -> str:
        """A mix for the prompts setting, `p207,p403,…`; lengths that scaling made equal have the sum of the shares."""
        lengths = [self._scaled(tokens) for tokens in self.profile.prompt_tokens]
        shares = {length: lengths.count(length) for length in dict.fromkeys(lengths)}
        if set(shares.values()) == {1}:
            return ",".join(f"p{length}" for length in shares)
        return ",".join(f"p{length}:{share}" for length, share in shares.items())

    @property
    def budget(self) -> str:
        """The range of output tokens, from the first to the last quartile."""
        low, high = self._scaled(self.profile.output_tokens[0]), self._scaled(self.profile.output_tokens[-1])
        return str(low) if low == high else f"{low}-{high}"

    @property
    def text(self) -> str:
        """The profile's text, and its scale if it has one."""
        if self.scale == 1:
            return self.profile.text
        return f"{self.profile.text} Lengths times {exact(self.scale, digits=3)}: the model's context is shorter."

    def _scaled(self, tokens: int) -> int:
        return max(1, int(tokens * self.scale))


def scaled_to(profile: WorkloadProfile, context_tokens: int | None) -> ScaledProfile:
    """The profile for a model with a context of so many tokens; as published where it fits, or is None."""
    if context_tokens is None or profile.longest_tokens <= context_tokens:
        return ScaledProfile(profile=profile, scale=1.0)
    return ScaledProfile(profile=profile, scale=context_tokens / profile.longest_tokens)
