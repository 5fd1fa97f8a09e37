-- When the return path of a sender domain was last seen to lead to us (Unix ms): its mail is sent from there then. Domains are found
-- by name for mail that comes in.
ALTER TABLE domain ADD COLUMN return_path_at INTEGER;
CREATE INDEX domain_by_name ON domain (domain);
