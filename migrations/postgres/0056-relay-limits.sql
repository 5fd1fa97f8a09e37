-- How many messages all nodes have taken of the limits of a relay: per slot of a span (a second of the minute, ten minutes of the day),
-- slots since 1970. One row of span `lock` for each relay.
CREATE TABLE relay_limit (
  relay TEXT COLLATE "C" NOT NULL,
  span TEXT COLLATE "C" NOT NULL,
  slot BIGINT NOT NULL,
  mails BIGINT NOT NULL,
  PRIMARY KEY (relay, span, slot)
);
