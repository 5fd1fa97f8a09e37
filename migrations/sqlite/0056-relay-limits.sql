-- How many messages all nodes have taken of the limits of a relay: per slot of a span (a second of the minute, ten minutes of the day),
-- slots since 1970. One row of span `lock` for each relay.
CREATE TABLE relay_limit (
  relay TEXT NOT NULL,
  span TEXT NOT NULL,
  slot INTEGER NOT NULL,
  mails INTEGER NOT NULL,
  PRIMARY KEY (relay, span, slot)
) STRICT, WITHOUT ROWID;
