-- The account at each certificate authority, by the URL of its directory.
CREATE TABLE acme_account (
  directory TEXT COLLATE "C" PRIMARY KEY,
  key_sealed BYTEA NOT NULL
);

-- The certificate of each host name, the order of it that is under way, and when the next one may begin.
CREATE TABLE acme_certificate (
  directory TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  fence BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  error TEXT,
  challenge_token TEXT COLLATE "C",
  challenge_answer TEXT COLLATE "C",
  certificate TEXT,
  key_sealed BYTEA,
  expires_at BIGINT,
  PRIMARY KEY (directory, name)
);
