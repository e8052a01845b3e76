-- What one more row costs
-- How long a decode pass takes by its number of rows, and how many tokens a second that makes: as long as the time hardly
-- grows, another row is nearly free.
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
