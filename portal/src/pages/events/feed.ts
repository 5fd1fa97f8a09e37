/**
 * The feed of events: the pages of the log and the events of the stream since then, as one list without duplicates. The log is read again
 * when the stream starts, so its pages have all earlier events. While the feed is paused, new events are counted.
 */
import { useCallback, useEffect, useMemo, useState } from 'react';
import { type Event, type Query, usePages } from '../../api.ts';
import { type Connection, useEvents } from '../../live.tsx';
import { matches, merge } from './merge.ts';

export type EventFilter = Pick<Query<'listEvents'>, 'messageId' | 'recipient' | 'since'> & {
  eventType?: Event['eventType'][];
  tag?: string[];
};

/** Above this number the log is read again, so that older events of the stream come from its pages. */
const KEPT_AT_MOST = 1_000;
const KEPT_THEN = 500;

export function useFeed(filter: EventFilter, isHeld: boolean) {
  const log = usePages('listEvents', { query: filter });
  const [arrived, setArrived] = useState<readonly Event[]>([]);
  const [unseen, setUnseen] = useState<ReadonlySet<string>>(new Set());
  const state: Connection = useEvents((event) => {
    setArrived((before) => [event, ...before]);
    if (isHeld) setUnseen((before) => new Set(before).add(event.eventId));
  });
  const { refetch } = log;
  useEffect(() => {
    if (state === 'live') void refetch();
  }, [state, refetch]);
  useEffect(() => {
    if (arrived.length <= KEPT_AT_MOST) return;
    void refetch().then(({ isSuccess }) => isSuccess && setArrived((before) => before.slice(0, KEPT_THEN)));
  }, [arrived.length > KEPT_AT_MOST, refetch]);
  const release = useCallback(() => setUnseen(new Set()), []);
  useEffect(() => {
    if (!isHeld) release();
  }, [isHeld, release]);

  const all = useMemo(() => {
    const fresh = arrived.filter((event) => matches(event, filter));
    return log.items === undefined ? undefined : merge(log.items, fresh);
  }, [arrived, log.items, filter]);
  const items = useMemo(
    () => (unseen.size === 0 ? all : all?.filter(({ eventId }) => !unseen.has(eventId))),
    [all, unseen],
  );
  return { ...log, state, items, unseenCount: (all?.length ?? 0) - (items?.length ?? 0), release };
}
