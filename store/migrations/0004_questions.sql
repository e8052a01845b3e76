-- Questions that people saved by a name, and the last ones that were asked. A text stands once in each.

CREATE TABLE saved_questions (
    name VARCHAR NOT NULL,
    sql VARCHAR NOT NULL,
    saved_at TIMESTAMP NOT NULL
);

CREATE TABLE asked_questions (
    sql VARCHAR NOT NULL,
    asked_at TIMESTAMP NOT NULL, -- the last time
    outcome VARCHAR NOT NULL -- how many rows it had, or why it had none
);
