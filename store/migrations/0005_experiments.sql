-- Experiments that have a plan: a sweep, a load test, an overhead test, repeats. Of a pair, whose runs are all there is,
-- the new columns are null. And predictions: what somebody expected before, and what came of it.

ALTER TABLE experiments ADD COLUMN folder VARCHAR; -- where its plan was last found; null where it has none
ALTER TABLE experiments ADD COLUMN is_worked_on BOOLEAN; -- somebody held its lock at the last look
ALTER TABLE experiments ADD COLUMN settings VARCHAR; -- JSON
ALTER TABLE experiments ADD COLUMN plan VARCHAR; -- experiment.json, whole

-- A row a point: its plan, and its newest record. Written anew whenever the experiment's files have changed.
CREATE TABLE experiment_points (
    experiment_id VARCHAR NOT NULL,
    key VARCHAR NOT NULL,
    repeat INTEGER NOT NULL,
    position INTEGER NOT NULL, -- in the order of running
    engine VARCHAR,
    prompts VARCHAR,
    prompt_tokens INTEGER, -- the length of each prompt, where all are of one
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
    run_ids VARCHAR NOT NULL, -- JSON: the runs by whose start it closes, as far as they are known beforehand
    question VARCHAR NOT NULL, -- JSON: what of the subject was predicted
    label VARCHAR NOT NULL, -- the question in words
    low DOUBLE, -- from; null where that end is open
    high DOUBLE, -- to
    unit VARCHAR NOT NULL,
    why VARCHAR NOT NULL,
    made_at TIMESTAMP NOT NULL,
    edited_at TIMESTAMP, -- the last time
    closed_at TIMESTAMP, -- when its subject had started; null while it is open
    simulated DOUBLE, -- what the simulator expected, computed at closing
    simulated_note VARCHAR, -- why it expected nothing, or by what it reckoned
    measured DOUBLE,
    outcome VARCHAR NOT NULL, -- open, pending, held, missed, ungraded
    reason VARCHAR, -- why there is no grade (yet)
    graded_at TIMESTAMP
);
