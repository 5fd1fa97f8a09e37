-- One row for each change that somebody made: append-only, kept 400 days (34,560,000,000 ms). before_change and after_change are JSON
-- without secrets.
CREATE TABLE audit (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C",
  mode TEXT,
  at BIGINT NOT NULL,
  actor_kind TEXT NOT NULL CHECK (actor_kind IN ('user', 'key', 'credential', 'command-line', 'system')),
  actor_id TEXT,
  actor_name TEXT,
  address TEXT,
  request_id TEXT,
  action TEXT NOT NULL,
  resource TEXT NOT NULL,
  resource_id TEXT,
  before_change TEXT,
  after_change TEXT
);
CREATE INDEX audit_by_account ON audit (account_id, id);
CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND OLD.at <= extract(epoch FROM clock_timestamp()) * 1000 - 34560000000 THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'the audit log is append-only';
END $$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
