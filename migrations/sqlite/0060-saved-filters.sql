-- Filters of lists in the portal, saved under a name. user_id: the member who alone sees the filter; null if the account shares it.
-- list: the list that it filters; query: its fields, as a JSON object of texts.
CREATE TABLE saved_filter (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  mode TEXT NOT NULL,
  user_id TEXT,
  list TEXT NOT NULL,
  name TEXT NOT NULL,
  query TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  FOREIGN KEY (account_id, user_id) REFERENCES membership (account_id, user_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX saved_filter_by_account ON saved_filter (account_id, mode, id);
CREATE INDEX saved_filter_by_member ON saved_filter (account_id, user_id);
