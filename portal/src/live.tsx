/**
 * Live events: one stream per tab, while the tab is visible and a page needs it. Browsers allow six connections per host for all tabs
 * together, so a hidden tab closes its own; the stream later resumes after the last event.
 */
import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from 'react';
import { eventsOf } from '../../clients/typescript/src/resources.ts';
import type { Event } from '../../clients/typescript/src/schema.ts';
import type { Caller, OperationId } from './api.ts';
import { useScope } from './scope.ts';

export type Connection = 'off' | 'connecting' | 'live';

interface Live {
  subscribe(listener: (event: Event) => void): () => void;
  state: Connection;
  /** Unix ms at which the open stream was requested. Responses from before then may lack an event. */
  requestedAt(): number;
}

const LiveContext = createContext<Live | undefined>(undefined);

function useVisible(): boolean {
  const [isVisible, setVisible] = useState(document.visibilityState === 'visible');
  useEffect(() => {
    const changed = (): void => setVisible(document.visibilityState === 'visible');
    document.addEventListener('visibilitychange', changed);
    return () => document.removeEventListener('visibilitychange', changed);
  }, []);
  return isVisible;
}

/** Reports when a connection is opening and when it is open: lists are read again then, so that no event is missed. */
function watched(caller: Caller, report: (state: Connection) => void): Caller {
  return {
    ...caller,
    async open(...given) {
      report('connecting');
      const response = await caller.open(...given);
      report('live');
      return response;
    },
  };
}

export function LiveProvider({ children }: { children: ReactNode }) {
  const { caller, name, account } = useScope();
  const isVisible = useVisible();
  const listeners = useRef(new Set<(event: Event) => void>());
  const [wanted, setWanted] = useState(0);
  const [state, setState] = useState<Connection>('off');
  const last = useRef<{ name: string; id: string | undefined }>({ name, id: undefined });
  const requestedAtMs = useRef(0);
  const isOpen = wanted > 0 && isVisible && account !== undefined;

  useEffect(() => {
    if (!isOpen) return;
    if (last.current.name !== name) last.current = { name, id: undefined };
    const ended = new AbortController();
    const report = (next: Connection): void => {
      if (next === 'connecting') requestedAtMs.current = Date.now();
      setState(next);
    };
    const stream = eventsOf(watched(caller, report)).stream({}, { signal: ended.signal, lastEventId: last.current.id });
    void (async () => {
      for await (const event of stream) {
        last.current.id = stream.lastEventId;
        for (const listener of listeners.current) listener(event);
      }
    })().catch(() => setState('off'));
    return () => {
      last.current.id = stream.lastEventId ?? last.current.id;
      ended.abort();
      setState('off');
    };
  }, [isOpen, caller, name]);

  const [live] = useState(() => ({
    requestedAt: () => requestedAtMs.current,
    subscribe(listener: (event: Event) => void) {
      listeners.current.add(listener);
      setWanted((count) => count + 1);
      return () => {
        listeners.current.delete(listener);
        setWanted((count) => count - 1);
      };
    },
  }));
  return <LiveContext value={{ ...live, state }}>{children}</LiveContext>;
}

/** Calls the listener with each event of this account and mode from now on, without gaps or duplicates. */
export function useEvents(listener: (event: Event) => void, isWanted = true): Connection {
  const live = useContext(LiveContext);
  const latest = useRef(listener);
  latest.current = listener;
  const subscribe = live?.subscribe;
  useEffect(() => {
    if (!isWanted || subscribe === undefined) return undefined;
    return subscribe((event) => latest.current(event));
  }, [isWanted, subscribe]);
  return live?.state ?? 'off';
}

/** Reloads these operations shortly after events; once for all events of that time. */
export function useFresh(
  operations: readonly OperationId[],
  concerns: (event: Event) => boolean = () => true,
  delayMs = 300,
): Connection {
  const queries = useQueryClient();
  const live = useContext(LiveContext);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const refresh = (afterMs: number): void => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      for (const one of operations) void queries.invalidateQueries({ queryKey: [one] });
    }, afterMs);
  };
  const state = useEvents((event) => concerns(event) && refresh(delayMs));
  // A response from before the stream may lack an event; one that was requested together with the stream does not.
  useEffect(() => {
    const beforeMs = live?.requestedAt() ?? 0;
    if (state === 'live')
      for (const one of operations)
        void queries.invalidateQueries({
          queryKey: [one],
          predicate: ({ state: { dataUpdatedAt, fetchStatus } }) => fetchStatus === 'idle' && dataUpdatedAt < beforeMs,
        });
    return () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    };
  }, [state]);
  return state;
}
