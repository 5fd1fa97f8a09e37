-- Pauses of destinations, which all nodes keep and restarts outlive. What operators end is a pause whose time is up; one node at a
-- time may probe then. Times in Unix ms.

CREATE TABLE destination_pause (
  destination TEXT PRIMARY KEY,
  began_at INTEGER NOT NULL,
  until_at INTEGER NOT NULL,
  level INTEGER NOT NULL,
  blocked_since INTEGER,
  host TEXT,
  outcome TEXT NOT NULL,
  ended_at INTEGER,
  probe_holder TEXT,
  probe_until INTEGER NOT NULL DEFAULT 0,
  notified_at INTEGER,
  changed_at INTEGER NOT NULL
) STRICT;
CREATE INDEX destination_pause_by_change ON destination_pause (changed_at);

DROP TABLE destination_resume;
