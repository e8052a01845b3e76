-- Prefill time by prompt tokens
-- The duration of a prefill pass by its number of prompt tokens, rounded up to a power of two. Requests in decode wait
-- this long.
-- chart: line x=prompt_tokens_up_to y=median_pass_s color=series
SELECT
    concat_ws(', ', r.model, r.dtype, r.device_name) AS series,
    (2 ** ceil(log2(p.prompt_tokens)))::BIGINT AS prompt_tokens_up_to,
    count(*) AS passes,
    median(p.end_s - p.start_s) AS median_pass_s,
    sum(p.prompt_tokens) / sum(p.end_s - p.start_s) AS prompt_tokens_per_s
FROM passes p
JOIN runs r ON r.run_id = p.run_id
WHERE p.kind = 'prefill' AND p.prompt_tokens > 0
GROUP BY ALL
ORDER BY series, prompt_tokens_up_to
