-- When the record of a key was last found in the DNS; null when the last check did not find it, or there was none. A mail is signed with
-- Ed25519 only where it was found.
ALTER TABLE dkim_key ADD COLUMN published_at INTEGER;
-- What was verified so far was by its RSA key.
UPDATE dkim_key SET published_at = (SELECT checked_at FROM domain WHERE domain.id = dkim_key.domain_id AND domain.status = 'verified')
  WHERE algorithm = 'rsa';
