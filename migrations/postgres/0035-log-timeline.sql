-- The log of events is ordered by the ids of transactions. A standby that is promoted goes on with the ids that had reached it: those that
-- the old primary gave out after that, whose events followers may have read, are given out again. So the offset of positions is
-- raised with the first event on another timeline of the server, by more than ids can ever be lost.
--
-- Services that do not show their WAL have no timeline: there only the check at the start of a node (storage.alignEventOrder) helps.
DO $do$
BEGIN
  PERFORM pg_walfile_name(pg_current_wal_lsn());
  CREATE FUNCTION wal_timeline() RETURNS BIGINT LANGUAGE sql VOLATILE AS $$
    SELECT ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint
  $$;
EXCEPTION WHEN OTHERS THEN
  CREATE FUNCTION wal_timeline() RETURNS BIGINT LANGUAGE sql IMMUTABLE AS 'SELECT 0::bigint';
END
$do$;

ALTER TABLE event_order ADD COLUMN timeline BIGINT;
UPDATE event_order SET timeline = wal_timeline();

CREATE OR REPLACE FUNCTION event_position() RETURNS BIGINT LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  present BIGINT := wal_timeline();
  known event_order%ROWTYPE;
BEGIN
  SELECT * INTO known FROM event_order WHERE id = 1;
  IF known.timeline IS DISTINCT FROM present THEN
    -- Transactions that come here at the same moment wait for the first one, and find it done.
    UPDATE event_order SET xid_offset = xid_offset + 2147483648, timeline = present
      WHERE id = 1 AND timeline IS DISTINCT FROM present;
    SELECT * INTO known FROM event_order WHERE id = 1;
  END IF;
  RETURN known.xid_offset + pg_current_xact_id()::text::bigint;
END
$$;
