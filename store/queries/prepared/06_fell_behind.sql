-- Runs with a growing backlog
-- Requests still waiting for a slot when the last request arrived. A large share means that requests arrived faster
-- than the engine could serve them; the waiting times then depend on the length of the run.
-- chart: points x=offered_requests_per_s y=waiting_share color=engine
WITH last AS (
    SELECT run_id, max(arrival_s) AS arrival_s, count(*) AS requests
    FROM requests
    GROUP BY run_id
    HAVING max(arrival_s) > min(arrival_s)
)
SELECT
    r.engine,
    r.slots,
    m.offered_requests_per_s,
    m.requests_per_s AS finished_requests_per_s,
    count(*) AS waiting_requests,
    count(*) / any_value(l.requests) AS waiting_share,
    r.run_id
FROM last l
JOIN requests q ON q.run_id = l.run_id
JOIN runs r ON r.run_id = l.run_id
JOIN run_metrics m ON m.run_id = l.run_id
WHERE q.arrival_s < l.arrival_s AND (q.admitted_s IS NULL OR q.admitted_s > l.arrival_s)
GROUP BY ALL
ORDER BY waiting_share DESC, r.run_id
