-- Decode time by rows
-- The duration of a decode pass and its tokens/s by number of rows. While the duration hardly grows, an additional row
-- is nearly free.
-- chart: line x=rows y=median_pass_s color=series
SELECT
    concat_ws(', ', r.engine, r.model, r.dtype, r.device_name) AS series,
    p.rows,
    count(*) AS passes,
    median(p.end_s - p.start_s) AS median_pass_s,
    any_value(p.rows) / median(p.end_s - p.start_s) AS tokens_per_s
FROM passes p
JOIN runs r ON r.run_id = p.run_id
WHERE p.kind = 'decode' AND p.end_s > p.start_s
GROUP BY ALL
ORDER BY series, p.rows
