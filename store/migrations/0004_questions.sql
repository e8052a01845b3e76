-- Queries saved by name, and the most recent queries. Each text occurs once per table.

CREATE TABLE saved_questions (
    name VARCHAR NOT NULL,
    sql VARCHAR NOT NULL,
    saved_at TIMESTAMP NOT NULL
);

CREATE TABLE asked_questions (
    sql VARCHAR NOT NULL,
    asked_at TIMESTAMP NOT NULL, -- the last time
    outcome VARCHAR NOT NULL -- the number of rows, or the reason for a failure
);
