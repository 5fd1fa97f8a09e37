-- Counters of what became of messages, by hour and by day, made from the log of events behind its end: for each account and mode
-- together (dimension none), and by tag, template and domain of the recipient. delivery_ms is a histogram (histogram.ts). The rows of
-- the present hour and day change all the time, and find room on their page.
CREATE TABLE statistics (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  dimension TEXT COLLATE "C" NOT NULL,
  period TEXT COLLATE "C" NOT NULL,
  start BIGINT NOT NULL,
  group_value TEXT COLLATE "C" NOT NULL,
  accepted BIGINT NOT NULL,
  delivered BIGINT NOT NULL,
  bounced_hard BIGINT NOT NULL,
  bounced_soft BIGINT NOT NULL,
  delayed BIGINT NOT NULL,
  suppressed BIGINT NOT NULL,
  complained BIGINT NOT NULL,
  opened BIGINT NOT NULL,
  clicked BIGINT NOT NULL,
  unsubscribed BIGINT NOT NULL,
  delivery_ms BYTEA,
  PRIMARY KEY (account_id, mode, dimension, period, start, group_value)
) WITH (fillfactor = 70);
CREATE INDEX statistics_by_start ON statistics (start);

-- The last event of each log that is counted in there; moved in the transaction that counts.
CREATE TABLE statistics_cursor (
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  position BIGINT NOT NULL,
  seq BIGINT NOT NULL,
  PRIMARY KEY (account_id, mode)
) WITH (fillfactor = 50);
