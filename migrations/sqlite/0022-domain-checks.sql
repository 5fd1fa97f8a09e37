-- Keys follow one another: the next one is published while the active one signs, a retired one stays for mail on its way. shown_since:
-- since when every server of the zone has shown the record.
CREATE TABLE dkim_key_kept (
  domain_id TEXT NOT NULL REFERENCES domain (id),
  algorithm TEXT NOT NULL CHECK (algorithm IN ('rsa', 'ed25519')),
  selector TEXT NOT NULL,
  public_key TEXT NOT NULL,
  private_key_sealed BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  published_at INTEGER,
  state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('next', 'active', 'retired')),
  shown_since INTEGER,
  retired_at INTEGER,
  PRIMARY KEY (domain_id, algorithm, selector)
) WITHOUT ROWID;
INSERT INTO dkim_key_kept (domain_id, algorithm, selector, public_key, private_key_sealed, created_at, published_at)
  SELECT domain_id, algorithm, selector, public_key, private_key_sealed, created_at, published_at FROM dkim_key;
DROP TABLE dkim_key;
ALTER TABLE dkim_key_kept RENAME TO dkim_key;
CREATE INDEX dkim_key_retired ON dkim_key (retired_at) WHERE state = 'retired';

-- What the account has still to learn by mail; null when there is nothing.
ALTER TABLE domain ADD COLUMN notice TEXT CHECK (notice IN ('failing', 'rotation'));
CREATE INDEX domain_with_notice ON domain (id) WHERE notice IS NOT NULL;
CREATE INDEX domain_by_check ON domain (checked_at) WHERE status <> 'pending';
-- Sending stops a day after a record is gone: those that are without it already have this day from now on.
UPDATE domain SET failing_since = CAST(strftime('%s', 'now') AS INTEGER) * 1000, notice = 'failing' WHERE status = 'failing';
