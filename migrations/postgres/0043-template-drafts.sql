-- Templates with a draft: sends use the published version, 0 for none yet; null where every version is used as soon as it is made.
-- `extra` is JSON of what other services keep with a template.
ALTER TABLE template ADD COLUMN published_version INTEGER;
ALTER TABLE template ADD COLUMN extra TEXT;
