-- engine/metrics/latency.py, latencies: one row per request, by the options of engine/metrics/definitions.py. NULL
-- where undefined. `mean_gaps` turns on itl_s, the mean of a request's gaps; without it the gaps are not read. With
-- failures 'infinite', an unfinished request has infinity for each value it never reached. In full response mode there
-- are no gaps and no TPOT without the first token.
CREATE OR REPLACE MACRO latencies(ttft, tpot, failures, mean_gaps) AS TABLE
WITH answered AS (
    SELECT
        t.run_id,
        t.request_id,
        count(*) AS output_tokens,
        arg_min_null(t.delivered_s, t.token_index) AS first_s,
        arg_max_null(t.delivered_s, t.token_index) AS last_s
    FROM tokens t
    GROUP BY t.run_id, t.request_id
),
paused AS (
    SELECT g.run_id, g.request_id, avg(g.gap_s) AS itl_s
    FROM token_gaps g
    WHERE mean_gaps
    GROUP BY g.run_id, g.request_id
),
returned AS (
    SELECT h.run_id, true AS is_whole
    FROM (
        SELECT run_id FROM requests WHERE failures = 'infinite' AND returned_s IS NOT NULL
        UNION
        SELECT run_id FROM tokens WHERE failures = 'infinite' AND delivered_s IS NULL
    ) h
),
timed AS (
    SELECT
        r.run_id,
        r.request_id,
        r.state IS NOT DISTINCT FROM 'finished' AS finished,
        failures = 'infinite' AND NOT finished AS never,
        w.is_whole IS NOT NULL AS is_whole,
        r.arrival_s,
        r.admitted_s,
        r.returned_s,
        coalesce(a.output_tokens, 0) AS output_tokens,
        CASE WHEN a.output_tokens > 0 THEN coalesce(a.first_s, r.returned_s) END AS first_s,
        CASE WHEN a.output_tokens > 0 THEN coalesce(a.last_s, r.returned_s) END AS last_s,
        p.itl_s
    FROM requests r
    LEFT JOIN answered a ON a.run_id = r.run_id AND a.request_id = r.request_id
    LEFT JOIN paused p ON p.run_id = r.run_id AND p.request_id = r.request_id
    LEFT JOIN returned w ON w.run_id = r.run_id
),
valued AS (
    SELECT
        *,
        admitted_s - arrival_s AS queue_wait_s,
        first_s - CASE WHEN ttft = 'admission' THEN admitted_s ELSE arrival_s END AS ttft_s,
        CASE
            WHEN NOT finished THEN NULL
            WHEN tpot = 'with-first' THEN (last_s - arrival_s) / nullif(output_tokens, 0)
            WHEN returned_s IS NULL AND output_tokens > 1 THEN (last_s - first_s) / (output_tokens - 1)
        END AS tpot_s,
        CASE WHEN finished THEN last_s - arrival_s END AS e2e_s
    FROM timed
)
SELECT
    run_id,
    request_id,
    CASE WHEN never AND queue_wait_s IS NULL THEN 'inf' ELSE queue_wait_s END AS queue_wait_s,
    CASE WHEN never AND ttft_s IS NULL THEN 'inf' ELSE ttft_s END AS ttft_s,
    CASE WHEN never AND NOT is_whole THEN 'inf' ELSE itl_s END AS itl_s,
    CASE WHEN never AND tpot_s IS NULL AND (tpot = 'with-first' OR NOT is_whole) THEN 'inf' ELSE tpot_s END AS tpot_s,
    CASE WHEN never AND e2e_s IS NULL THEN 'inf' ELSE e2e_s END AS e2e_s,
    output_tokens
FROM valued;

CREATE OR REPLACE VIEW request_metrics AS
SELECT * EXCLUDE (itl_s) FROM latencies('arrival', 'without-first', 'left-out', false);
