-- The last use of each active API key and SMTP credential: when (Unix ms), and from which address. A separate table, so that recording
-- uses does not rewrite the keys. A row is deleted when its key or credential is revoked.
CREATE TABLE credential_use (
  credential_id TEXT PRIMARY KEY,
  used_at INTEGER NOT NULL,
  address TEXT NOT NULL
) STRICT, WITHOUT ROWID;
