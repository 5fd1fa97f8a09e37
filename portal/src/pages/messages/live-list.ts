/**
 * A live list of messages. The status of visible messages changes in place. New messages appear at the top if that is visible; further
 * down, only their number is shown, and nothing moves.
 */
import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import type { Event, Message } from '../../api.ts';
import { useFresh } from '../../live.tsx';
import type { EventType } from '../../texts/event-types.ts';

const AT_TOP_PX = 200;
/** All loaded pages are read again with the first one; for longer lists that is too much. */
const PAGES_AT_MOST = 3;

/** The status of a message after an event of each type. A Reject event names the status itself. */
const STATUS_AFTER: Record<EventType, Message['status'] | undefined> = {
  Send: undefined,
  Delivery: 'delivered',
  DeliveryDelay: 'delayed',
  Bounce: 'bounced',
  Complaint: 'complained',
  Reject: undefined,
  Open: undefined,
  Click: undefined,
  Unsubscribe: undefined,
  Inbound: undefined,
};

interface Pages {
  pages: { items: Message[] }[];
  pageParams: unknown[];
}

function statusAfter({ eventType, reject }: Event): Message['status'] | undefined {
  return reject === undefined ? STATUS_AFTER[eventType] : reject.reason;
}

export function useLiveList(pageCount: number, filter: string) {
  const queries = useQueryClient();
  const [missed, setMissed] = useState(0);
  useEffect(() => setMissed(0), [filter]);
  const follows = (): boolean => scrollY < AT_TOP_PX && pageCount <= PAGES_AT_MOST;

  const patch = ({ messageId, ...event }: Event): void => {
    const status = statusAfter({ messageId, ...event });
    if (status === undefined) return;
    queries.setQueriesData<Pages>({ queryKey: ['listMessages'] }, (data) => {
      if (!Array.isArray(data?.pages)) return data;
      const changed = (one: Message): Message => (one.messageId === messageId ? { ...one, status } : one);
      return { ...data, pages: data.pages.map((page) => ({ ...page, items: page.items.map(changed) })) };
    });
  };
  const connection = useFresh(['listMessages'], (event) => {
    patch(event);
    if (follows()) return true;
    if (event.eventType === 'Send') setMissed((count) => count + 1);
    return false;
  });
  return {
    connection,
    missed,
    showMissed() {
      setMissed(0);
      scrollTo({ top: 0 });
      void queries.resetQueries({ queryKey: ['listMessages'] });
    },
  };
}
