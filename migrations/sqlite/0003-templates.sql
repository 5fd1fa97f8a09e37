-- Templates. A template is its name, its present version and its layout; what it says stands in its versions, which
-- are never changed. Shared by both modes of an account.

CREATE TABLE template (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  layout_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  UNIQUE (account_id, name)
) WITHOUT ROWID;
CREATE INDEX template_by_account ON template (account_id, id);
CREATE INDEX template_by_layout ON template (layout_id) WHERE layout_id IS NOT NULL;

-- `name` is the one the template had then.
CREATE TABLE template_version (
  template_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  name TEXT NOT NULL,
  type TEXT NOT NULL CHECK (type IN ('transactional', 'marketing')),
  subject TEXT,
  html TEXT,
  text TEXT,
  layout_id TEXT,
  variables TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (template_id, version)
);
