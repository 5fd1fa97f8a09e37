-- Keys of the operator API. secret_hash: SHA-256 of the complete key. scopes and allowed_networks: JSON arrays; allowed_networks is null
-- for any address. Keys are revoked, never deleted.
CREATE TABLE operator_key (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  allowed_networks TEXT,
  secret_hash BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
