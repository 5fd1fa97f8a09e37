-- What a node publishes of itself with each sign of life (JSON), and pauses of destinations that the operator has ended.

ALTER TABLE node ADD COLUMN state TEXT NOT NULL DEFAULT '{}';

CREATE TABLE destination_resume (
  destination TEXT COLLATE "C" PRIMARY KEY,
  asked_at BIGINT NOT NULL
);
