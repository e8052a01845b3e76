-- Waste by engine
-- The wasted share of each engine's work: rows whose request had ended, columns without a token, and KV memory that was
-- reserved and not used.
-- chart: bar x=engine y=dead_fraction
SELECT
    r.engine,
    count(*) AS runs,
    1 - sum(m.useful_slot_steps) / sum(m.slot_steps) AS dead_fraction,
    sum(m.padding_positions) / sum(m.computed_positions) AS padding_fraction,
    sum(m.dead_positions) / sum(m.computed_positions) AS dead_position_fraction,
    sum(m.kv_unused_position_s) / nullif(sum(m.kv_reserved_position_s), 0) AS kv_unused_fraction
FROM run_metrics m
JOIN runs r ON r.run_id = m.run_id
WHERE m.slot_steps > 0
GROUP BY r.engine
ORDER BY dead_fraction DESC, r.engine
