-- Links that show a rendered template to anyone who has them. A link works while its row exists. The token of the link is not stored.
-- subject, html, text: as rendered when the link was created. version: null for content that was not saved as a version.
-- created_by_kind, created_by_id, created_by_name: the actor, as in the audit log.
CREATE TABLE template_share (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  template_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER,
  subject TEXT,
  html TEXT,
  text TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  created_by_kind TEXT NOT NULL,
  created_by_id TEXT,
  created_by_name TEXT
) STRICT;
CREATE INDEX template_share_by_account ON template_share (account_id, mode, id);
CREATE INDEX template_share_by_template ON template_share (template_id, id);
CREATE INDEX template_share_by_expiry ON template_share (expires_at);
