-- The totals over all passes of a run, one row per run with passes: the counts, seconds and waste of run_metrics
-- (engine/metrics/metrics.py), and the totals in figures and captions. A sum covers the passes that logged the column;
-- `kv_logged_passes` counts the passes that logged all KV columns.
CREATE OR REPLACE MACRO pass_totals() AS TABLE
SELECT
    run_id,
    count(DISTINCT step) AS steps,
    count(*) AS passes,
    count(*) FILTER (WHERE kind = 'prefill') AS prefill_passes,
    count(*) FILTER (WHERE kind = 'decode') AS decode_passes,
    count(*) FILTER (WHERE kind = 'mixed') AS mixed_passes,
    count(bucket_tokens) AS captured_passes,
    sum(prompt_tokens) AS read_tokens,
    sum(rows)::BIGINT AS slot_steps,
    sum(live_rows)::BIGINT AS useful_slot_steps,
    sum(computed_positions)::BIGINT AS computed_positions,
    sum(computed_positions - padding_positions - dead_positions)::BIGINT AS real_positions,
    sum(padding_positions)::BIGINT AS padding_positions,
    sum(dead_positions)::BIGINT AS dead_positions,
    sum((end_s - start_s) * padding_positions / greatest(computed_positions, 1)) AS padding_s,
    sum((end_s - start_s) * dead_positions / greatest(computed_positions, 1)) AS dead_s,
    coalesce(sum(end_s - start_s) FILTER (WHERE kind = 'prefill'), 0) AS prefill_s,
    coalesce(sum(end_s - start_s) FILTER (WHERE kind = 'decode'), 0) AS decode_s,
    coalesce(sum(end_s - start_s) FILTER (WHERE kind = 'mixed'), 0) AS mixed_s,
    quantile_cont(end_s - start_s, 0.5) FILTER (WHERE kind = 'prefill') AS prefill_pass_p50_s,
    quantile_cont(end_s - start_s, 0.5) FILTER (WHERE kind = 'decode') AS decode_pass_p50_s,
    sum(issue_s) AS issue_s,
    sum(device_s) AS device_s,
    sum(end_s - start_s) AS pass_s,
    max(end_s) - min(start_s) AS span_s,
    count(kv_reserved_positions + kv_used_positions + kv_padding_positions + kv_dead_positions + kv_fragment_positions)
        AS kv_logged_passes,
    sum((end_s - start_s) * kv_reserved_positions) AS kv_reserved_position_s,
    sum((end_s - start_s) * kv_used_positions) AS kv_used_position_s,
    sum((end_s - start_s) * kv_padding_positions) AS kv_padding_position_s,
    sum((end_s - start_s) * kv_dead_positions) AS kv_dead_position_s,
    sum((end_s - start_s) * kv_fragment_positions) AS kv_fragment_position_s,
    sum((end_s - start_s) * (
        kv_reserved_positions - kv_used_positions - kv_padding_positions - kv_dead_positions - kv_fragment_positions
    )) AS kv_room_position_s,
    sum(tokens) FILTER (WHERE bucket_tokens IS NOT NULL)::BIGINT AS captured_tokens,
    sum(bucket_tokens)::BIGINT AS bucket_tokens,
    sum(recomputed_tokens)::BIGINT AS recomputed_tokens
FROM passes
GROUP BY run_id;
