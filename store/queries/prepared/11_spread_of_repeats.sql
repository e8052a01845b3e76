-- Spread of repeats
-- The spread between runs of the same requests on the same engine. A smaller difference between two engines is not
-- conclusive.
-- chart: bar x=series y=speed_spread
SELECT
    concat_ws(', ', r.engine, r.model, r.slots || ' slots') AS series,
    r.workload_digest,
    count(*) AS runs,
    min(m.output_tokens_per_s) AS least_tokens_per_s,
    median(m.output_tokens_per_s) AS median_tokens_per_s,
    max(m.output_tokens_per_s) AS most_tokens_per_s,
    max(m.output_tokens_per_s) / min(m.output_tokens_per_s) - 1 AS speed_spread,
    max(m.ttft_p95_s) / nullif(min(m.ttft_p95_s), 0) - 1 AS ttft_p95_spread
FROM run_metrics m
JOIN runs r ON r.run_id = m.run_id
WHERE r.status = 'completed' AND m.output_tokens_per_s > 0 AND NOT coalesce(r.simulated, false)
GROUP BY series, r.workload_digest, r.engine, r.model, r.slots, r.dtype, r.device_name, r.execution, r.timing
HAVING count(*) > 1
ORDER BY speed_spread DESC, series, r.workload_digest
