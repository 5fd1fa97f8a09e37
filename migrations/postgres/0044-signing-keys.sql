-- API keys that sign requests (AWS Signature Version 4): the id that a request names, and the secret, sealed because the service computes
-- signatures with it. Both are null for API keys that are sent with a request.
ALTER TABLE api_key ADD COLUMN access_key_id TEXT COLLATE "C";
ALTER TABLE api_key ADD COLUMN signing_secret_sealed BYTEA;
CREATE UNIQUE INDEX api_key_by_access_key_id ON api_key (access_key_id) WHERE access_key_id IS NOT NULL;
