-- These are there since the beginning; the embedded database gets them with this number.
CREATE INDEX IF NOT EXISTS webhook_delivery_settled ON webhook_delivery (updated_at) WHERE status <> 'pending';
CREATE INDEX IF NOT EXISTS suppression_by_time ON suppression (account_id, mode, created_at, email);
CREATE INDEX IF NOT EXISTS sandbox_item_by_time ON sandbox_item (created_at);
