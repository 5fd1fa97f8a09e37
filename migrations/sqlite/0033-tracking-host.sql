-- How the host of a domain's own stands that links of its mail may lead to: named (the DNS leads it here), served (this service answers
-- there); when that changed, in Unix ms.

ALTER TABLE domain ADD COLUMN tracking TEXT;
ALTER TABLE domain ADD COLUMN tracking_changed_at INTEGER;
CREATE INDEX domain_by_tracking ON domain (tracking_changed_at) WHERE tracking_changed_at IS NOT NULL;
