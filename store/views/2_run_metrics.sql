-- engine/metrics/metrics.py, run_metrics: one row per run, one column per metric, in the glossary's order. NULL where
-- undefined. Percentiles interpolate linearly between samples; below 100 samples there is no 99th percentile.
CREATE OR REPLACE VIEW run_metrics AS
WITH requested AS (
    SELECT
        run_id,
        count(*) AS requests,
        count(*) FILTER (WHERE state = 'finished') AS finished_requests,
        sum(prompt_tokens)::BIGINT AS prompt_tokens,
        min(arrival_s) AS first_arrival_s,
        max(arrival_s) AS last_arrival_s,
        max(returned_s) AS last_return_s,
        sum(preemptions)::BIGINT AS preemptions
    FROM requests
    GROUP BY run_id
),
produced AS (
    SELECT
        t.run_id,
        count(*) AS output_tokens,
        count(coalesce(t.delivered_s, r.returned_s)) AS delivered_tokens,
        max(t.delivered_s) AS last_delivery_s
    FROM tokens t
    LEFT JOIN (SELECT run_id, request_id, returned_s FROM requests WHERE returned_s IS NOT NULL) r
        ON r.run_id = t.run_id AND r.request_id = t.request_id
    GROUP BY t.run_id
),
waited AS (
    SELECT
        run_id,
        quantile_cont(queue_wait_s, [0.5, 0.95, 0.99]) AS queue_wait_s,
        max(queue_wait_s) AS queue_wait_max_s,
        count(queue_wait_s) AS queue_wait_n,
        quantile_cont(ttft_s, [0.5, 0.95, 0.99]) AS ttft_s,
        max(ttft_s) AS ttft_max_s,
        count(ttft_s) AS ttft_n,
        quantile_cont(tpot_s, [0.5, 0.95, 0.99]) AS tpot_s,
        max(tpot_s) AS tpot_max_s,
        count(tpot_s) AS tpot_n,
        quantile_cont(e2e_s, [0.5, 0.95, 0.99]) AS e2e_s,
        max(e2e_s) AS e2e_max_s,
        count(e2e_s) AS e2e_n
    FROM request_metrics
    GROUP BY run_id
),
paused AS (
    SELECT
        run_id,
        quantile_cont(gap_s, [0.5, 0.95, 0.99]) AS itl_s,
        max(gap_s) AS itl_max_s,
        count(gap_s) AS itl_n
    FROM token_gaps
    GROUP BY run_id
),
held AS (
    SELECT run_id, max(peak_bytes) AS peak_memory_bytes
    FROM memory
    GROUP BY run_id
),
timed AS (
    SELECT
        a.run_id,
        greatest(s.last_delivery_s, a.last_return_s) - a.first_arrival_s AS duration_s
    FROM requested a
    LEFT JOIN produced s ON s.run_id = a.run_id
)
SELECT
    r.run_id,
    coalesce(a.requests, 0) AS requests,
    coalesce(a.finished_requests, 0) AS finished_requests,
    coalesce(a.prompt_tokens, 0) AS prompt_tokens,
    coalesce(s.output_tokens, 0) AS output_tokens,
    coalesce(w.steps, 0) AS steps,
    coalesce(w.passes, 0) AS passes,
    coalesce(w.prefill_passes, 0) AS prefill_passes,
    coalesce(w.decode_passes, 0) AS decode_passes,
    coalesce(w.mixed_passes, 0) AS mixed_passes,
    coalesce(w.captured_passes, 0) AS captured_passes,
    d.duration_s,
    coalesce(s.delivered_tokens, 0) / nullif(d.duration_s, 0) AS output_tokens_per_s,
    a.finished_requests / nullif(d.duration_s, 0) AS requests_per_s,
    (a.requests - 1) / nullif(a.last_arrival_s - a.first_arrival_s, 0) AS offered_requests_per_s,
    w.read_tokens / nullif(w.prefill_s + w.mixed_s, 0) AS prefill_tokens_per_s,
    q.queue_wait_s[1] AS queue_wait_p50_s,
    q.queue_wait_s[2] AS queue_wait_p95_s,
    CASE WHEN q.queue_wait_n >= 100 THEN q.queue_wait_s[3] END AS queue_wait_p99_s,
    q.queue_wait_max_s,
    coalesce(q.queue_wait_n, 0) AS queue_wait_n,
    q.ttft_s[1] AS ttft_p50_s,
    q.ttft_s[2] AS ttft_p95_s,
    CASE WHEN q.ttft_n >= 100 THEN q.ttft_s[3] END AS ttft_p99_s,
    q.ttft_max_s,
    coalesce(q.ttft_n, 0) AS ttft_n,
    p.itl_s[1] AS itl_p50_s,
    p.itl_s[2] AS itl_p95_s,
    CASE WHEN p.itl_n >= 100 THEN p.itl_s[3] END AS itl_p99_s,
    p.itl_max_s,
    coalesce(p.itl_n, 0) AS itl_n,
    q.tpot_s[1] AS tpot_p50_s,
    q.tpot_s[2] AS tpot_p95_s,
    CASE WHEN q.tpot_n >= 100 THEN q.tpot_s[3] END AS tpot_p99_s,
    q.tpot_max_s,
    coalesce(q.tpot_n, 0) AS tpot_n,
    q.e2e_s[1] AS e2e_p50_s,
    q.e2e_s[2] AS e2e_p95_s,
    CASE WHEN q.e2e_n >= 100 THEN q.e2e_s[3] END AS e2e_p99_s,
    q.e2e_max_s,
    coalesce(q.e2e_n, 0) AS e2e_n,
    p.itl_max_s / nullif(p.itl_s[1], 0) AS itl_max_over_p50,
    coalesce(w.slot_steps, 0) AS slot_steps,
    coalesce(w.useful_slot_steps, 0) AS useful_slot_steps,
    (w.slot_steps - w.useful_slot_steps) / nullif(w.slot_steps, 0) AS dead_fraction,
    coalesce(w.computed_positions, 0) AS computed_positions,
    coalesce(w.padding_positions, 0) AS padding_positions,
    coalesce(w.dead_positions, 0) AS dead_positions,
    w.padding_positions / nullif(w.computed_positions, 0) AS padding_fraction,
    w.dead_positions / nullif(w.computed_positions, 0) AS dead_position_fraction,
    coalesce(w.padding_s, 0) AS padding_s,
    coalesce(w.dead_s, 0) AS dead_s,
    1 - w.captured_tokens / nullif(w.bucket_tokens, 0) AS bucket_padding_fraction,
    a.preemptions,
    w.recomputed_tokens,
    coalesce(w.prefill_s, 0) AS prefill_s,
    coalesce(w.decode_s, 0) AS decode_s,
    coalesce(w.mixed_s, 0) AS mixed_s,
    (w.prefill_s + w.mixed_s) / nullif(w.pass_s, 0) AS prefill_share,
    w.prefill_pass_p50_s,
    w.decode_pass_p50_s,
    w.issue_s,
    w.device_s,
    coalesce(greatest(w.span_s - w.pass_s, 0), 0) AS between_passes_s,
    coalesce(w.kv_reserved_position_s, 0) AS kv_reserved_position_s,
    coalesce(w.kv_reserved_position_s - w.kv_used_position_s, 0) AS kv_unused_position_s,
    w.kv_padding_position_s,
    w.kv_dead_position_s,
    w.kv_fragment_position_s,
    w.kv_room_position_s,
    (w.kv_reserved_position_s - w.kv_used_position_s) / nullif(w.kv_reserved_position_s, 0) AS kv_unused_fraction,
    m.peak_memory_bytes
FROM runs r
LEFT JOIN requested a ON a.run_id = r.run_id
LEFT JOIN produced s ON s.run_id = r.run_id
LEFT JOIN timed d ON d.run_id = r.run_id
LEFT JOIN pass_totals() w ON w.run_id = r.run_id
LEFT JOIN waited q ON q.run_id = r.run_id
LEFT JOIN paused p ON p.run_id = r.run_id
LEFT JOIN held m ON m.run_id = r.run_id;
