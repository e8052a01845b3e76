-- Runs that missed their offered rate
-- The engine received requests more slowly than planned, so the results do not describe the offered rate.
-- chart: points x=offered_requests_per_s y=given_requests_per_s color=engine
WITH given AS (
    SELECT
        run_id,
        (count(*) - 1) / nullif(max(submitted_s) - min(submitted_s), 0) AS given_requests_per_s,
        max(submitted_s - arrival_s) AS latest_s
    FROM requests
    GROUP BY run_id
)
SELECT
    r.engine,
    m.offered_requests_per_s,
    g.given_requests_per_s,
    g.latest_s,
    c.finding,
    r.created_at,
    r.run_id
FROM run_checks c
JOIN runs r ON r.run_id = c.run_id
JOIN run_metrics m ON m.run_id = c.run_id
LEFT JOIN given g ON g.run_id = c.run_id
WHERE c.check_name = 'offered_rate' AND c.outcome = 'fail'
ORDER BY r.created_at DESC, r.run_id
