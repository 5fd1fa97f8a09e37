-- Counters of what became of messages, by hour and by day, made from the log of events behind its end: for each account and mode
-- together (dimension none), and by tag, template and domain of the recipient. delivery_ms is a histogram (histogram.ts).
CREATE TABLE statistics (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  dimension TEXT NOT NULL,
  period TEXT NOT NULL,
  start INTEGER NOT NULL,
  group_value TEXT NOT NULL,
  accepted INTEGER NOT NULL,
  delivered INTEGER NOT NULL,
  bounced_hard INTEGER NOT NULL,
  bounced_soft INTEGER NOT NULL,
  delayed INTEGER NOT NULL,
  suppressed INTEGER NOT NULL,
  complained INTEGER NOT NULL,
  opened INTEGER NOT NULL,
  clicked INTEGER NOT NULL,
  unsubscribed INTEGER NOT NULL,
  delivery_ms BLOB,
  PRIMARY KEY (account_id, mode, dimension, period, start, group_value)
) WITHOUT ROWID;
CREATE INDEX statistics_by_start ON statistics (start);

-- The last event of each log that is counted in there; moved in the transaction that counts.
CREATE TABLE statistics_cursor (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  position INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (account_id, mode)
) WITHOUT ROWID;
