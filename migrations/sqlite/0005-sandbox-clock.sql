-- The sandbox's clock, which endpoint wants which event, where the requests of webhooks went, and rare events.

-- By how much the clock of an account's sandbox is ahead of the real time, for good. Times of its messages and events are by
-- that clock; `due` of its work is real, and moves with the clock. `moved_by` names who is moving it now, until `moving_until`.
CREATE TABLE sandbox_clock (
  account_id TEXT PRIMARY KEY,
  ahead_ms INTEGER NOT NULL,
  moved_by TEXT,
  moving_until INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX work_of_sandbox ON work (account_id, due) WHERE mode = 'sandbox';

-- One row for each type of event that an enabled endpoint wants: an event finds those it goes to, and only those.
CREATE TABLE webhook_subscription (
  account_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  event_type TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  PRIMARY KEY (account_id, mode, event_type, webhook_id)
) WITHOUT ROWID;
CREATE INDEX webhook_subscription_by_webhook ON webhook_subscription (webhook_id);
INSERT INTO webhook_subscription (account_id, mode, event_type, webhook_id)
  SELECT DISTINCT w.account_id, w.mode, wanted.value, w.id FROM webhook w, json_each(w.events) wanted WHERE w.enabled = 1;

-- Where the last request of a delivery went; null for what was never tried, and for records from before this column.
ALTER TABLE webhook_delivery ADD COLUMN url TEXT;

-- Events that are rare among many: who asks for bounces does not read past every delivery. Send and Delivery, which every
-- mail has, are in no need of it and do not pay for it.
CREATE INDEX event_of_note ON event (account_id, mode, type, seq) WHERE type NOT IN ('Send', 'Delivery');
