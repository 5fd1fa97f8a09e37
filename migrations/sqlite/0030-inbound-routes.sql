-- Addresses of users that mail comes in for, and the mail that came. local_part: lower case; `prefix+*`, `*`. events: whether webhooks that subscribe to Inbound are
-- notified; webhook_id: the endpoint that is the route's own. mx_*: what the last look at the DNS found.
CREATE TABLE inbound_route (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  local_part TEXT NOT NULL,
  domain TEXT NOT NULL,
  webhook_id TEXT,
  events INTEGER NOT NULL,
  max_bytes INTEGER NOT NULL,
  mx_status TEXT NOT NULL CHECK (mx_status IN ('verified', 'missing', 'different', 'unknown', 'pending')),
  mx_found TEXT,
  checked_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE UNIQUE INDEX inbound_route_by_account ON inbound_route (account_id, mode, domain, local_part);
CREATE INDEX inbound_route_by_address ON inbound_route (domain, local_part);

-- Mail that a route took; its bytes are in inbound_mail as long as they are kept. outcome: `event`, or why it ended without one. detail (JSON): what the event
-- says, without what was written in it once has_content is 0. files (JSON): the attachments, and where they lie in the bytes. to_events: whether webhooks that
-- subscribe to Inbound got the event.
CREATE TABLE inbound_message (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  route_id TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('event', 'auto-reply', 'own-mail', 'too-many-hops')),
  received_at INTEGER NOT NULL,
  envelope_from TEXT NOT NULL,
  recipient TEXT NOT NULL,
  header_from TEXT NOT NULL,
  subject TEXT NOT NULL,
  size_bytes INTEGER NOT NULL,
  in_reply_to TEXT,
  to_events INTEGER NOT NULL,
  detail TEXT NOT NULL,
  files TEXT NOT NULL,
  has_content INTEGER NOT NULL
);
CREATE INDEX inbound_message_by_account ON inbound_message (account_id, mode, id);
CREATE INDEX inbound_message_by_time ON inbound_message (received_at);
CREATE INDEX inbound_message_by_content ON inbound_message (received_at) WHERE has_content = 1;

-- Of an endpoint that takes the mail of one route and nothing else.
ALTER TABLE webhook ADD COLUMN inbound_route_id TEXT;
