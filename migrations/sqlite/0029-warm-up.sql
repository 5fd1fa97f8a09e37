-- How many mails each address that warms up has taken of its share of a day for each provider. `source` is empty for the host;
-- days since 1970.

CREATE TABLE warm_up (
  provider TEXT NOT NULL,
  source TEXT NOT NULL,
  day INTEGER NOT NULL,
  mails INTEGER NOT NULL,
  PRIMARY KEY (provider, source, day)
) STRICT;
