-- Throughput by month
-- The median and the best tokens/s of each month, by engine, model and device.
-- chart: line x=month y=median_tokens_per_s color=series
SELECT
    strftime(r.created_at, '%Y-%m') AS month,
    concat_ws(', ', r.engine, r.model, r.device) AS series,
    count(*) AS runs,
    median(m.output_tokens_per_s) AS median_tokens_per_s,
    max(m.output_tokens_per_s) AS best_tokens_per_s
FROM run_metrics m
JOIN runs r ON r.run_id = m.run_id
WHERE m.output_tokens_per_s IS NOT NULL AND NOT coalesce(r.simulated, false)
GROUP BY ALL
ORDER BY month, series
