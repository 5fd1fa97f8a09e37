-- Addresses and domains that a key or credential may send from, as a JSON array; NULL sends from any that the account may.
ALTER TABLE api_key ADD COLUMN allowed_senders TEXT;
ALTER TABLE smtp_credential ADD COLUMN allowed_senders TEXT;
