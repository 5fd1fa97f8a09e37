/**
 * The API calls of the portal: those of the generated client, with the session's cookie, for an account and a mode. `useCall` reads,
 * `usePages` reads lists, `useChange` changes; openapi.json types their input and output.
 */
import { keepPreviousData, useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import {
  type Answer,
  type Caller,
  createCaller,
  type Input,
  type OperationId,
} from '../../clients/typescript/src/call.ts';
import { type ListId, type Page, pagesOf } from '../../clients/typescript/src/pages.ts';
import { serviceUrl } from './base-path.ts';
import { type Mode, useScope } from './scope.ts';

export type { Answer, Body, Caller, Input, OperationId, Query } from '../../clients/typescript/src/call.ts';
export { PostriderError } from '../../clients/typescript/src/error.ts';
export type { Event, Message, MessageDetail } from '../../clients/typescript/src/schema.ts';
export type { Mode, Person } from './scope.ts';

const callers = new Map<string, Caller>();

/** Returns the signed-in caller for an account; without an account, for calls about the user and by operators. */
export function callerOf(accountId?: string, mode?: Mode): Caller {
  const name = `${accountId} ${mode}`;
  let caller = callers.get(name);
  if (caller === undefined) {
    caller = createCaller({ url: serviceUrl, session: { mode }, accountId, maxRetries: 2 });
    callers.set(name, caller);
  }
  return caller;
}

export interface CallSettings {
  enabled?: boolean;
  /** Milliseconds between two calls while the page is visible. */
  everyMs?: number;
  /** Keeps the last response while another input is loading. */
  keepsLast?: boolean;
}

/** Cached responses are found and invalidated by the name of the operation. */
const keyOf = (caller: string, operation: OperationId, input: unknown) => [operation, caller, input] as const;

/** Reads one response, which is cached and shared. */
export function useCall<O extends OperationId>(
  operation: O,
  input: Input<O> = {} as Input<O>,
  settings: CallSettings = {},
) {
  const { caller, name } = useScope();
  return useQuery({
    queryKey: keyOf(name, operation, input),
    queryFn: ({ signal }): Promise<Answer<O>> => caller.call(operation, ...([input, { signal }] as never)),
    enabled: settings.enabled ?? true,
    refetchInterval: settings.everyMs ?? false,
    placeholderData: settings.keepsLast ? (keepPreviousData as never) : undefined,
  });
}

type Item<O extends ListId> = Answer<O> extends readonly (infer T)[] ? T : never;

/** Reads a list page by page; `items` has the items of all pages read so far. */
export function usePages<O extends ListId>(
  operation: O,
  input: Input<O> = {} as Input<O>,
  { enabled = true, everyMs, pageSize = 50 }: CallSettings & { pageSize?: number } = {},
) {
  const { caller, name } = useScope();
  const asked = { ...input, query: { limit: pageSize, ...(input as { query?: object }).query } } as unknown as Input<O>;
  const query = useInfiniteQuery({
    queryKey: keyOf(name, operation, asked),
    queryFn: ({ signal, pageParam }): Promise<Page<Item<O>>> =>
      pagesOf(caller, operation, asked, { signal }).page(pageParam) as Promise<Page<Item<O>>>,
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.hasMore ? last.nextCursor : undefined),
    enabled,
    refetchInterval: everyMs ?? false,
    placeholderData: keepPreviousData,
  });
  return { ...query, items: query.data?.pages.flatMap((page) => page.items) };
}

interface Callbacks<O extends OperationId> {
  onSuccess?(answer: Answer<O>): unknown;
  onError?(error: Error): unknown;
}

/** Runs a change, then reloads the responses of the `stale` operations. */
export function useChange<O extends OperationId>(operation: O, stale: readonly OperationId[] = []) {
  const { caller } = useScope();
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (input: Input<O>): Promise<Answer<O>> => caller.call(operation, ...([input] as never)),
    onSuccess: () => Promise.all(stale.map((one) => queries.invalidateQueries({ queryKey: [one] }))),
  });
  return {
    ...change,
    /** Calls back even if the new data has replaced the form by then, which the library's `mutate` does not. */
    mutate(input: Input<O>, { onSuccess, onError = () => {} }: Callbacks<O> = {}): void {
      change.mutateAsync(input).then(onSuccess, onError);
    },
  };
}
