-- Keys follow one another: the next one is published while the active one signs, a retired one stays for mail on its way. shown_since:
-- since when every server of the zone has shown the record.
ALTER TABLE dkim_key
  DROP CONSTRAINT dkim_key_pkey,
  ADD PRIMARY KEY (domain_id, algorithm, selector),
  ADD COLUMN state TEXT COLLATE "C" NOT NULL DEFAULT 'active' CHECK (state IN ('next', 'active', 'retired')),
  ADD COLUMN shown_since BIGINT,
  ADD COLUMN retired_at BIGINT;
CREATE INDEX dkim_key_retired ON dkim_key (retired_at) WHERE state = 'retired';

-- What the account has still to learn by mail; null when there is nothing.
ALTER TABLE domain ADD COLUMN notice TEXT COLLATE "C" CHECK (notice IN ('failing', 'rotation'));
CREATE INDEX domain_with_notice ON domain (id) WHERE notice IS NOT NULL;
CREATE INDEX domain_by_check ON domain (checked_at) WHERE status <> 'pending';
-- Sending stops a day after a record is gone: those that are without it already have this day from now on.
UPDATE domain SET failing_since = CAST(extract(epoch FROM now()) * 1000 AS BIGINT), notice = 'failing' WHERE status = 'failing';
