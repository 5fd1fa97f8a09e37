-- Addresses of users that mail comes in for, and the mail that came. local_part: lower case; `prefix+*`, `*`. events: whether webhooks that subscribe to Inbound are
-- notified; webhook_id: the endpoint that is the route's own. mx_*: what the last look at the DNS found.
CREATE TABLE inbound_route (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  local_part TEXT COLLATE "C" NOT NULL,
  domain TEXT COLLATE "C" NOT NULL,
  webhook_id TEXT COLLATE "C",
  events INTEGER NOT NULL,
  max_bytes BIGINT NOT NULL,
  mx_status TEXT COLLATE "C" NOT NULL CHECK (mx_status IN ('verified', 'missing', 'different', 'unknown', 'pending')),
  mx_found TEXT COLLATE "C",
  checked_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX inbound_route_by_account ON inbound_route (account_id, mode, domain, local_part);
CREATE INDEX inbound_route_by_address ON inbound_route (domain, local_part);

-- Mail that a route took; its bytes are in inbound_mail as long as they are kept. outcome: `event`, or why it ended without one. detail (JSON): what the event
-- says, without what was written in it once has_content is 0. files (JSON): the attachments, and where they lie in the bytes. to_events: whether webhooks that
-- subscribe to Inbound got the event.
CREATE TABLE inbound_message (
  id TEXT COLLATE "C" PRIMARY KEY,
  account_id TEXT COLLATE "C" NOT NULL,
  mode TEXT COLLATE "C" NOT NULL,
  route_id TEXT COLLATE "C" NOT NULL,
  outcome TEXT COLLATE "C" NOT NULL CHECK (outcome IN ('event', 'auto-reply', 'own-mail', 'too-many-hops')),
  received_at BIGINT NOT NULL,
  envelope_from TEXT COLLATE "C" NOT NULL,
  recipient TEXT COLLATE "C" NOT NULL,
  header_from TEXT NOT NULL,
  subject TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  in_reply_to TEXT COLLATE "C",
  to_events INTEGER NOT NULL,
  detail TEXT NOT NULL,
  files TEXT NOT NULL,
  has_content INTEGER NOT NULL
);
CREATE INDEX inbound_message_by_account ON inbound_message (account_id, mode, id);
CREATE INDEX inbound_message_by_time ON inbound_message (received_at);
CREATE INDEX inbound_message_by_content ON inbound_message (received_at) WHERE has_content = 1;

-- Of an endpoint that takes the mail of one route and nothing else.
ALTER TABLE webhook ADD COLUMN inbound_route_id TEXT COLLATE "C";
