-- engine/core/latency.py, request_metrics: one row a request.
CREATE OR REPLACE VIEW request_metrics AS
WITH answered AS (
    SELECT
        t.run_id,
        t.request_id,
        count(*) AS output_tokens,
        arg_min_null(t.delivered_s, t.token_index) AS first_s,
        arg_max_null(t.delivered_s, t.token_index) AS last_s
    FROM tokens t
    GROUP BY t.run_id, t.request_id
)
SELECT
    r.run_id,
    r.request_id,
    r.admitted_s - r.arrival_s AS queue_wait_s,
    CASE WHEN a.output_tokens > 0 THEN coalesce(a.first_s, r.returned_s) END - r.arrival_s AS ttft_s,
    CASE
        WHEN r.state = 'finished' AND r.returned_s IS NULL AND a.output_tokens > 1
            THEN (a.last_s - a.first_s) / (a.output_tokens - 1)
    END AS tpot_s,
    CASE
        WHEN r.state = 'finished' AND a.output_tokens > 0 THEN coalesce(a.last_s, r.returned_s) - r.arrival_s
    END AS e2e_s,
    coalesce(a.output_tokens, 0) AS output_tokens
FROM requests r
LEFT JOIN answered a ON a.run_id = r.run_id AND a.request_id = r.request_id;
