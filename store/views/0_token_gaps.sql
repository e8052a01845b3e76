-- engine/metrics/latency.py, Latencies.gap_s: one row a gap between two neighboring tokens of a request that was not returned whole.
-- A request's tokens are numbered without holes; joining each with the one before takes half the time of a window.
CREATE OR REPLACE VIEW token_gaps AS
SELECT t.run_id, t.request_id, t.token_index, t.delivered_s - before.delivered_s AS gap_s, t.pass_index
FROM tokens t
JOIN tokens before
    ON before.run_id = t.run_id AND before.request_id = t.request_id AND before.token_index = t.token_index - 1
LEFT JOIN requests r ON r.run_id = t.run_id AND r.request_id = t.request_id
WHERE r.returned_s IS NULL AND t.delivered_s IS NOT NULL AND before.delivered_s IS NOT NULL;
