-- The times of the events in each stretch of the log, by mode, so that a page from some day on is found without reading all
-- that lies before it. Made in the background behind the end of the log; null where a stretch has no event of the mode.
CREATE TABLE event_stretch (
  last_seq INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL,
  live_from INTEGER,
  live_until INTEGER,
  sandbox_from INTEGER,
  sandbox_until INTEGER
);
