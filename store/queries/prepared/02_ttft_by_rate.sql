-- TTFT by arrival rate
-- The 95th percentile of the time to first token at each offered rate. Where an engine's points bend upward, it is
-- saturated.
-- chart: points x=offered_requests_per_s y=ttft_p95_s color=engine
SELECT
    r.engine,
    r.slots,
    m.offered_requests_per_s,
    m.ttft_p50_s,
    m.ttft_p95_s,
    m.ttft_n AS requests,
    r.model,
    r.device_name,
    r.run_id
FROM run_metrics m
JOIN runs r ON r.run_id = m.run_id
WHERE m.offered_requests_per_s IS NOT NULL AND m.ttft_p95_s IS NOT NULL
ORDER BY r.engine, m.offered_requests_per_s, r.run_id
