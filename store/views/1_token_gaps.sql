-- engine/core/latency.py, itl: one row a gap between two neighbouring tokens of a request that was not returned whole.
CREATE OR REPLACE VIEW token_gaps AS
WITH gaps AS (
    SELECT
        run_id,
        request_id,
        token_index,
        pass_index,
        delivered_s - lag(delivered_s) OVER (PARTITION BY run_id, request_id ORDER BY token_index) AS gap_s
    FROM tokens
)
SELECT g.run_id, g.request_id, g.token_index, g.gap_s, g.pass_index
FROM gaps g
LEFT JOIN requests r ON r.run_id = g.run_id AND r.request_id = g.request_id
WHERE g.gap_s IS NOT NULL AND r.returned_s IS NULL;
