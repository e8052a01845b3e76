-- Experiments with a plan: sweeps, load tests, overhead tests, repeats. For a pair, which has no plan, the new columns
-- are null. And predictions: what was expected before a run, and the result.

ALTER TABLE experiments ADD COLUMN folder VARCHAR; -- where its plan was last found; null where it has none
ALTER TABLE experiments ADD COLUMN is_worked_on BOOLEAN; -- a process held its lock at the last ingest
ALTER TABLE experiments ADD COLUMN settings VARCHAR; -- JSON
ALTER TABLE experiments ADD COLUMN plan VARCHAR; -- experiment.json, whole

-- One row per point: its plan and its newest record. Rewritten when the experiment's files change.
CREATE TABLE experiment_points (
    experiment_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    position INTEGER NOT NULL, -- in the order of running
    engine VARCHAR,
    prompts VARCHAR,
    prompt_tokens INTEGER, -- the length of each prompt, if all have the same
    batch_size INTEGER,
    rate_per_s DOUBLE,
    role VARCHAR,
    config_label VARCHAR,
    timing VARCHAR,
    point_values VARCHAR, -- JSON
    config VARCHAR, -- JSON
    attempts INTEGER NOT NULL,
    run_id VARCHAR,
    status VARCHAR, -- of the newest attempt; null where there was none
    error VARCHAR,
    asked_bytes BIGINT,
    free_bytes BIGINT,
    oom_where VARCHAR,
    ended_at TIMESTAMP,
    totals VARCHAR -- JSON: the run's metrics as the record has them, for when the run is gone
);

CREATE TABLE predictions (
    prediction_id VARCHAR NOT NULL,
    subject_kind VARCHAR NOT NULL, -- run, experiment
    subject_id VARCHAR NOT NULL,
    run_ids VARCHAR NOT NULL, -- JSON: the runs whose start closes it, if known before
    question VARCHAR NOT NULL, -- JSON: what was predicted
    label VARCHAR NOT NULL, -- the question as text
    low DOUBLE, -- from; null where that end is open
    high DOUBLE, -- to
    unit VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    made_at TIMESTAMP NOT NULL,
    edited_at TIMESTAMP, -- the last time
    closed_at TIMESTAMP, -- when its subject started; null while it is open
    simulated DOUBLE, -- the simulator's value, computed after closing
    simulated_note VARCHAR, -- what the simulator calculated with, or why there is no value
    measured DOUBLE,
    outcome VARCHAR NOT NULL, -- open, pending, held, missed, ungraded
    reason VARCHAR, -- why there is no grade (yet)
    graded_at TIMESTAMP
);
