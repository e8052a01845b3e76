-- Static vs continuous
-- The newest static and continuous runs of the same requests with the same model, device and number of slots.
-- chart: bar x=requests y=speed_ratio color=model
WITH newest AS (
    SELECT
        r.engine, r.workload_digest, r.model, r.dtype, r.device_name, r.slots,
        concat_ws(
            ', ', r.run_info->>'$.workload.prompts', 'budget ' || (r.run_info->>'$.workload.budget'), r.slots || ' slots'
        ) AS requests,
        arg_max(r.run_id, r.created_at) AS run_id
    FROM runs r
    WHERE r.status = 'completed' AND r.engine IN ('static', 'continuous')
    GROUP BY ALL
)
SELECT
    s.model,
    s.requests,
    s.slots,
    a.output_tokens_per_s AS static_tokens_per_s,
    b.output_tokens_per_s AS continuous_tokens_per_s,
    b.output_tokens_per_s / a.output_tokens_per_s AS speed_ratio,
    a.ttft_p95_s AS static_ttft_p95_s,
    b.ttft_p95_s AS continuous_ttft_p95_s,
    a.dead_fraction AS static_dead_fraction,
    s.run_id AS static_run_id,
    c.run_id AS continuous_run_id,
    s.workload_digest
FROM newest s
JOIN newest c
    ON c.workload_digest = s.workload_digest AND c.model = s.model AND c.dtype = s.dtype
    AND c.device_name = s.device_name AND c.slots = s.slots
JOIN run_metrics a ON a.run_id = s.run_id
JOIN run_metrics b ON b.run_id = c.run_id
WHERE s.engine = 'static' AND c.engine = 'continuous'
ORDER BY speed_ratio DESC, s.run_id
