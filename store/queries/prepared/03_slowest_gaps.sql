-- Slowest gaps and the requests admitted in the same step
-- The 20 longest gaps between two tokens of a request, with the requests whose prefill started in the step of the late
-- token.
-- chart: points x=admitted_prompt_tokens y=gap_s color=engine
WITH slowest AS (
    SELECT run_id, request_id, token_index, gap_s, pass_index
    FROM token_gaps
    ORDER BY gap_s DESC, run_id, request_id, token_index
    LIMIT 20
),
placed AS (
    SELECT s.*, p.step
    FROM slowest s
    JOIN passes p ON p.run_id = s.run_id AND p.pass_index = s.pass_index
),
admitted AS (
    SELECT p.run_id, p.step, count(*) AS requests, sum(q.prompt_tokens) AS prompt_tokens
    FROM passes p
    JOIN (SELECT DISTINCT run_id, step FROM placed) l ON l.run_id = p.run_id AND l.step = p.step
    JOIN spans s ON s.run_id = p.run_id AND s.start_pass = p.pass_index
    JOIN requests q ON q.run_id = s.run_id AND q.request_id = s.request_id
    WHERE s.phase = 'prefill' AND coalesce(s.chunk, 0) = 0
    GROUP BY p.run_id, p.step
)
SELECT
    l.gap_s,
    r.engine,
    l.request_id,
    l.token_index,
    l.step,
    coalesce(a.requests, 0) AS admitted_requests,
    coalesce(a.prompt_tokens, 0) AS admitted_prompt_tokens,
    l.run_id
FROM placed l
JOIN runs r ON r.run_id = l.run_id
LEFT JOIN admitted a ON a.run_id = l.run_id AND a.step = l.step
ORDER BY l.gap_s DESC, l.run_id, l.request_id, l.token_index
