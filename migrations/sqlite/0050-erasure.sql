-- Erasures of recipients. address_hash: keyed hash of the normalized address, which stays so that the address receives no mail while
-- is_suppressed is 1; reason: of that suppression. address_sealed: the address, until completed_at. progress (JSON): where the work
-- continues, and what was removed.
CREATE TABLE erasure (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  address_hash TEXT NOT NULL,
  address_sealed BLOB,
  is_suppressed INTEGER NOT NULL,
  reason TEXT NOT NULL,
  progress TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  completed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX erasure_by_account ON erasure (account_id, mode, id);
CREATE INDEX erasure_by_address ON erasure (account_id, mode, address_hash);
