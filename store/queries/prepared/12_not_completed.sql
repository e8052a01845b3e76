-- Incomplete runs
-- The error of each run, the requests it finished and those in its workload, newest first.
-- chart: none
SELECT
    r.created_at,
    r.status,
    r.engine,
    r.model,
    r.slots,
    m.finished_requests,
    r.workload_requests,
    m.output_tokens,
    r.error,
    r.run_id
FROM runs r
LEFT JOIN run_metrics m ON m.run_id = r.run_id
WHERE r.status NOT IN ('completed', 'running')
ORDER BY r.created_at DESC, r.run_id
