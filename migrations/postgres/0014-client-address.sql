-- The address of the HTTP or SMTP client that handed the mail in; null for what is older, and for mail of the service itself.
ALTER TABLE email ADD COLUMN client_address TEXT COLLATE "C";
