-- Preemptions by run
-- Runs that ran out of KV memory: how often a running request lost its blocks, and how many tokens were computed again.
-- chart: bar x=pool y=recomputed_tokens color=model
WITH lost AS (
    SELECT run_id, count(*) AS preemptions, count(DISTINCT request_id) AS requests, sum(blocks) AS blocks
    FROM events
    WHERE event = 'preempt'
    GROUP BY run_id
),
again AS (
    SELECT run_id, sum(recomputed_tokens) AS recomputed_tokens, sum(tokens) AS tokens
    FROM passes
    WHERE run_id IN (SELECT run_id FROM lost)
    GROUP BY run_id
)
SELECT
    concat_ws(', ', r.engine, r.kv_blocks || ' blocks') AS pool,
    r.model,
    l.preemptions,
    l.requests AS preempted_requests,
    l.blocks AS blocks_given_back,
    coalesce(a.recomputed_tokens, 0) AS recomputed_tokens,
    coalesce(a.recomputed_tokens, 0) / nullif(a.tokens, 0) AS recomputed_share,
    r.run_id
FROM lost l
JOIN runs r ON r.run_id = l.run_id
LEFT JOIN again a ON a.run_id = l.run_id
ORDER BY l.preemptions DESC, r.run_id
