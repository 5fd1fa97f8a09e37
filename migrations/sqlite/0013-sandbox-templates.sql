-- Templates made with a sandbox key exist in the sandbox only, where they stand before a live one of the same name. The table is
-- written once more, since a name is unique within its mode now.
CREATE TABLE template_by_mode (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  name TEXT NOT NULL,
  version INTEGER NOT NULL,
  layout_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  mode TEXT NOT NULL DEFAULT 'live' CHECK (mode IN ('live', 'sandbox')),
  UNIQUE (account_id, name, mode)
) WITHOUT ROWID;
INSERT INTO template_by_mode (id, account_id, name, version, layout_id, created_at, updated_at)
  SELECT id, account_id, name, version, layout_id, created_at, updated_at FROM template;
DROP TABLE template;
ALTER TABLE template_by_mode RENAME TO template;
CREATE INDEX template_by_account ON template (account_id, id);
CREATE INDEX template_by_layout ON template (layout_id) WHERE layout_id IS NOT NULL;
