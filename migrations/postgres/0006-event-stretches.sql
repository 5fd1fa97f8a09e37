-- The times of the events in each stretch of the log, by mode, so that a page from some day on is found without reading all
-- that lies before it. Made in the background behind the end of the log; null where a stretch has no event of the mode.
CREATE TABLE event_stretch (
  last_seq BIGINT PRIMARY KEY,
  first_seq BIGINT NOT NULL,
  live_from BIGINT,
  live_until BIGINT,
  sandbox_from BIGINT,
  sandbox_until BIGINT
);
