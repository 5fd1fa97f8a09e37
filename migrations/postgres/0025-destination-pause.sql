-- Pauses of destinations, which all nodes keep and restarts outlive. What operators end is a pause whose time is up; one node at a
-- time may probe then. Times in Unix ms.

CREATE TABLE destination_pause (
  destination TEXT COLLATE "C" PRIMARY KEY,
  began_at BIGINT NOT NULL,
  until_at BIGINT NOT NULL,
  level BIGINT NOT NULL,
  blocked_since BIGINT,
  host TEXT,
  outcome TEXT NOT NULL,
  ended_at BIGINT,
  probe_holder TEXT,
  probe_until BIGINT NOT NULL DEFAULT 0,
  notified_at BIGINT,
  changed_at BIGINT NOT NULL
);
CREATE INDEX destination_pause_by_change ON destination_pause (changed_at);

DROP TABLE destination_resume;
