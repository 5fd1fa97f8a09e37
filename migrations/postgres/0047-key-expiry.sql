-- When an API key or an SMTP credential stops being valid (Unix ms); null for never.
ALTER TABLE api_key ADD COLUMN expires_at BIGINT;
ALTER TABLE smtp_credential ADD COLUMN expires_at BIGINT;
