/**
 * Which templates are live. In the sandbox, live templates are read-only, and the API does not say which they are: those that the same user
 * sees in Live.
 */
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { pagesOf } from '../../../../clients/typescript/src/pages.ts';
import { callerOf, PostriderError } from '../../api.ts';
import { useScope } from '../../scope.ts';
import type { Template } from './content.ts';

/** Undefined while unknown. */
export function useIsLive(templateId: string): boolean | undefined {
  const { account, mode, name } = useScope();
  const query = useQuery({
    queryKey: ['getTemplate', name, 'is live', templateId],
    enabled: mode === 'sandbox',
    queryFn: async ({ signal }): Promise<boolean> => {
      try {
        await callerOf(account?.accountId, 'live').call('getTemplate', { path: { id: templateId } }, { signal });
        return true;
      } catch (error) {
        if (error instanceof PostriderError && error.status === 404) return false;
        throw error;
      }
    },
  });
  return mode === 'live' ? true : query.data;
}

/** Returns the live templates among these, newest first; undefined while unknown. */
export function useLiveIds(templates: readonly Template[] | undefined): ReadonlySet<string> | undefined {
  const { account, mode, name } = useScope();
  const oldest = templates?.at(-1)?.templateId;
  return useQuery({
    queryKey: ['listTemplates', name, 'live ids', oldest],
    enabled: mode === 'sandbox' && oldest !== undefined,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }): Promise<ReadonlySet<string>> => {
      const live = callerOf(account?.accountId, 'live');
      const ids = new Set<string>();
      for await (const { templateId } of pagesOf(live, 'listTemplates', { query: { limit: 100 } }, { signal })) {
        if (templateId < oldest!) break;
        ids.add(templateId);
      }
      return ids;
    },
  }).data;
}
