-- The processes that share this database, each with the time of its last sign of life.

CREATE TABLE node (
  id TEXT COLLATE "C" PRIMARY KEY,
  host TEXT NOT NULL,
  version TEXT NOT NULL,
  roles TEXT NOT NULL,
  started_at BIGINT NOT NULL,
  seen_at BIGINT NOT NULL
);
