-- How many mails each address that warms up has taken of its share of a day for each provider. `source` is empty for the host;
-- days since 1970.

CREATE TABLE warm_up (
  provider TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  day BIGINT NOT NULL,
  mails BIGINT NOT NULL,
  PRIMARY KEY (provider, source, day)
);
