-- The networks from which an API key or an SMTP credential can be used: a JSON array of CIDRs; null for any address.
ALTER TABLE api_key ADD COLUMN allowed_networks TEXT;
ALTER TABLE smtp_credential ADD COLUMN allowed_networks TEXT;
