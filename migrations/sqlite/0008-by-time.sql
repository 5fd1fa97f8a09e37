-- What is removed, or shown, by its time is found without reading the whole table: in the one writer that would hold up every
-- commit, and in the one reader every list.
CREATE INDEX webhook_delivery_settled ON webhook_delivery (updated_at) WHERE status <> 'pending';
CREATE INDEX suppression_by_time ON suppression (account_id, mode, created_at, email);
CREATE INDEX sandbox_item_by_time ON sandbox_item (created_at);
