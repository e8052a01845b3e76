-- engine/metrics/latency.py, Latencies.gap_s: one row per gap between two consecutive tokens of a streamed request.
-- A request's tokens have consecutive numbers, so a self-join works and takes half the time of a window function.
CREATE OR REPLACE VIEW token_gaps AS
SELECT t.run_id, t.request_id, t.token_index, t.delivered_s - before.delivered_s AS gap_s, t.pass_index
FROM tokens t
JOIN tokens before
    ON before.run_id = t.run_id AND before.request_id = t.request_id AND before.token_index = t.token_index - 1
LEFT JOIN requests r ON r.run_id = t.run_id AND r.request_id = t.request_id
WHERE r.returned_s IS NULL AND t.delivered_s IS NOT NULL AND before.delivered_s IS NOT NULL;
