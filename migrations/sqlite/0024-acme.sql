-- The account at each certificate authority, by the URL of its directory.
CREATE TABLE acme_account (
  directory TEXT PRIMARY KEY,
  key_sealed BLOB NOT NULL
) WITHOUT ROWID;

-- The certificate of each host name, the order of it that is under way, and when the next one may begin.
CREATE TABLE acme_certificate (
  directory TEXT NOT NULL,
  name TEXT NOT NULL,
  fence INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  error TEXT,
  challenge_token TEXT,
  challenge_answer TEXT,
  certificate TEXT,
  key_sealed BLOB,
  expires_at INTEGER,
  PRIMARY KEY (directory, name)
) WITHOUT ROWID;
