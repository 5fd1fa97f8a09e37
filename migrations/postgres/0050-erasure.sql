-- Erasures of recipients. address_hash: keyed hash of the normalized address, which stays so that the address receives no mail while
-- is_suppressed is 1; reason: of that suppression. address_sealed: the address, until completed_at. progress (JSON): where the work
-- continues, and what was removed.
CREATE TABLE erasure (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  address_hash TEXT COLLATE "C" NOT NULL,
  address_sealed BYTEA,
  is_suppressed BIGINT NOT NULL,
  reason TEXT NOT NULL,
  progress TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  completed_at BIGINT
);
CREATE INDEX erasure_by_account ON erasure (account_id, mode, id);
CREATE INDEX erasure_by_address ON erasure (account_id, mode, address_hash);
