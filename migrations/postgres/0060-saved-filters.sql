-- Filters of lists in the portal, saved under a name. user_id: the member who alone sees the filter; null if the account shares it.
-- list: the list that it filters; query: its fields, as a JSON object of texts.
CREATE TABLE saved_filter (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  mode TEXT COLLATE "C" NOT NULL,
  user_id TEXT COLLATE "C",
  list TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  query TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  FOREIGN KEY (account_id, user_id) REFERENCES membership (account_id, user_id) ON DELETE CASCADE
);
CREATE INDEX saved_filter_by_account ON saved_filter (account_id, mode, id);
CREATE INDEX saved_filter_by_member ON saved_filter (account_id, user_id);
