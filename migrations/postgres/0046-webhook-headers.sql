-- Headers that the customer adds to the requests of a webhook. header_names (JSON array) is shown; headers_sealed is the JSON object of
-- names and values. Both are null without headers.
ALTER TABLE webhook ADD COLUMN header_names TEXT;
ALTER TABLE webhook ADD COLUMN headers_sealed BYTEA;
