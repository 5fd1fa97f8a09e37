-- What a node publishes of itself with each sign of life (JSON), and pauses of destinations that the operator has ended.

ALTER TABLE node ADD COLUMN state TEXT NOT NULL DEFAULT '{}';

CREATE TABLE destination_resume (
  destination TEXT PRIMARY KEY,
  asked_at INTEGER NOT NULL
) STRICT;
