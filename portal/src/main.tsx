/** Starts the portal in the page. */
import './mantine.css';
import './theme.css';
import { MantineProvider } from '@mantine/core';
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { createRoot } from 'react-dom/client';
import { PostriderError } from './api.ts';
import { followFocus } from './parts/focus-back.ts';
import { createPortalRouter } from './router.tsx';
import { followTabs, sessionQuery, setPerson } from './session.tsx';
import { cssVariables, theme } from './theme.ts';

const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? '';
// The scroll lock of dialogs adds a style element and reads its nonce from this global (get-nonce).
Object.assign(globalThis, { __webpack_nonce__: nonce });

const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    onError(error) {
      if (!(error instanceof PostriderError)) return;
      // The role may have changed, or the account requires two-factor authentication by now.
      if (error.status === 403) void queries.invalidateQueries({ queryKey: sessionQuery.queryKey });
      if (error.status === 401 && queries.getQueryData(sessionQuery.queryKey)) setPerson(queries, null);
    },
  }),
  // The API client retries temporary failures.
  defaultOptions: { queries: { retry: false, staleTime: 5_000 }, mutations: { retry: false } },
});

followTabs(queries);
followFocus();

createRoot(document.getElementById('root')!).render(
  <MantineProvider
    theme={theme}
    cssVariablesResolver={cssVariables}
    defaultColorScheme="auto"
    getStyleNonce={() => nonce}
  >
    <QueryClientProvider client={queries}>
      <RouterProvider router={createPortalRouter(queries)} />
    </QueryClientProvider>
  </MantineProvider>,
);
