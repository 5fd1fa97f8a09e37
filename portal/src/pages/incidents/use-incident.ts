/** An incident with its messages, page by page: one response that contains a list, which `usePages` does not support. */
import { useInfiniteQuery } from '@tanstack/react-query';
import type { Answer } from '../../api.ts';
import { useScope } from '../../scope.ts';

const PAGE_SIZE = 100;
const EVERY_MS = 10_000;

type Detail = Answer<'getIncident'>;
export type Affected = Extract<Detail, { affectedMessages: unknown }>['affectedMessages'][number];

export function useIncident(id: string) {
  const { caller, name } = useScope();
  const query = useInfiniteQuery({
    queryKey: ['getIncident', name, id],
    queryFn: async ({ signal, pageParam }): Promise<{ body: Detail; next: string | undefined }> => {
      const input = { path: { id }, query: { limit: PAGE_SIZE, cursor: pageParam } };
      const { body, headers } = await caller.answered('getIncident', input, { signal });
      return { body, next: headers.get('x-next-cursor') ?? undefined };
    },
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ next }) => next,
    // A resolved incident stays resolved, and each further call would count as a refused request.
    refetchInterval: ({ state }) => (state.error === null ? EVERY_MS : false),
  });
  const items = query.data?.pages.flatMap(({ body }): readonly Affected[] =>
    'affectedMessages' in body ? body.affectedMessages : [],
  );
  return { ...query, incident: query.data?.pages[0]?.body, items };
}
