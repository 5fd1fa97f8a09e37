/**
 * The paths of the portal: pages of an account start with /app/live or /app/sandbox, operator pages with /app/operator. A page is loaded
 * when it is first visited. Query parameters are plain text: useSearchState reads and sets them.
 */
import type { QueryClient } from '@tanstack/react-query';
import { createRootRoute, createRoute, createRouter, Outlet, redirect } from '@tanstack/react-router';
import { type ComponentType, lazy } from 'react';
import { basePath } from './base-path.ts';
import { ContentError, Loading, NoContent, NoPage, PageError } from './parts/states.tsx';
import type { Search } from './search-state.ts';
import { sessionQuery } from './session.tsx';

type Load<N extends string> = () => Promise<Record<N, ComponentType>>;

/**
 * A page whose file is loaded when it is first visited, or before, when a link to it is pointed at. A file that cannot be loaded is an
 * error of the page once that is visited; pointing at a link never disturbs the page that is open.
 */
function page<N extends string>(load: Load<N>, name: N) {
  let loading: ReturnType<Load<N>> | undefined;
  const loadOnce = (): ReturnType<Load<N>> => {
    loading ??= load().catch((error: unknown) => {
      loading = undefined;
      throw error;
    });
    return loading;
  };
  const component = Object.assign(
    lazy(async () => ({ default: (await loadOnce())[name] })),
    {
      preload: () =>
        loadOnce().then(
          () => undefined,
          () => undefined,
        ),
    },
  );
  return { component, pendingComponent: Loading };
}

const root = createRootRoute({
  component: Outlet,
  notFoundComponent: NoPage,
  errorComponent: PageError,
  validateSearch: (search): Search => search as Search,
});

const open = {
  home: (queries: QueryClient) =>
    createRoute({
      getParentRoute: () => root,
      path: '/',
      beforeLoad: async () => {
        const person = await queries.ensureQueryData(sessionQuery);
        if (person === null) throw redirect({ to: '/sign-in' });
        if (person.accounts.length === 0 && person.isOperator) throw redirect({ to: '/app/operator' });
        throw redirect({ to: '/app/$mode', params: { mode: 'live' } });
      },
      errorComponent: PageError,
    }),
  signIn: createRoute({
    getParentRoute: () => root,
    path: '/sign-in',
    ...page(() => import('./pages/sign-in/sign-in.tsx'), 'SignInPage'),
  }),
  welcome: createRoute({
    getParentRoute: () => root,
    path: '/welcome',
    ...page(() => import('./pages/sign-in/set-password.tsx'), 'WelcomePage'),
  }),
  reset: createRoute({
    getParentRoute: () => root,
    path: '/reset',
    ...page(() => import('./pages/sign-in/set-password.tsx'), 'ResetPage'),
  }),
  shared: createRoute({
    getParentRoute: () => root,
    path: '/shared',
    ...page(() => import('./pages/messages/shared.tsx'), 'SharedMessagePage'),
  }),
  preview: createRoute({
    getParentRoute: () => root,
    path: '/preview',
    ...page(() => import('./pages/templates/shared.tsx'), 'SharedTemplatePage'),
  }),
};

const app = createRoute({
  getParentRoute: () => root,
  path: '/app',
  ...page(() => import('./shell/shell.tsx'), 'Shell'),
});
const operator = createRoute({ getParentRoute: () => app, path: '/operator', notFoundComponent: NoContent });
const mode = createRoute({ getParentRoute: () => app, path: '/$mode', notFoundComponent: NoContent });

const ofAccount = [
  { path: '/', ...page(() => import('./pages/overview/overview.tsx'), 'OverviewPage') },
  { path: '/start', ...page(() => import('./pages/start/start.tsx'), 'StartPage') },
  { path: '/messages', ...page(() => import('./pages/messages/messages.tsx'), 'MessagesPage') },
  { path: '/messages/$id', ...page(() => import('./pages/messages/message.tsx'), 'MessagePage') },
  { path: '/shares', ...page(() => import('./pages/messages/shares.tsx'), 'SharesPage') },
  { path: '/events', ...page(() => import('./pages/events/events.tsx'), 'EventsPage') },
  { path: '/incidents', ...page(() => import('./pages/incidents/incidents.tsx'), 'IncidentsPage') },
  { path: '/incidents/$id', ...page(() => import('./pages/incidents/incident.tsx'), 'IncidentPage') },
  { path: '/requests', ...page(() => import('./pages/requests/requests.tsx'), 'RequestsPage') },
  { path: '/inbox', ...page(() => import('./pages/inbox/inbox.tsx'), 'InboxPage') },
  { path: '/inbox/$id', ...page(() => import('./pages/inbox/inbox.tsx'), 'InboxPage') },
  { path: '/inbound', ...page(() => import('./pages/inbound/inbound.tsx'), 'InboundPage') },
  { path: '/inbound/$id', ...page(() => import('./pages/inbound/mail.tsx'), 'InboundMailPage') },
  { path: '/inbound-routes', ...page(() => import('./pages/inbound/routes.tsx'), 'InboundRoutesPage') },
  { path: '/inbound-routes/$id', ...page(() => import('./pages/inbound/route.tsx'), 'InboundRoutePage') },
  { path: '/templates', ...page(() => import('./pages/templates/templates.tsx'), 'TemplatesPage') },
  { path: '/templates/$id', ...page(() => import('./pages/templates/template.tsx'), 'TemplatePage') },
  { path: '/template-shares', ...page(() => import('./pages/templates/shares.tsx'), 'TemplateSharesPage') },
  { path: '/webhooks', ...page(() => import('./pages/webhooks/webhooks.tsx'), 'WebhooksPage') },
  { path: '/webhooks/$id', ...page(() => import('./pages/webhooks/webhook.tsx'), 'WebhookPage') },
  { path: '/domains', ...page(() => import('./pages/domains/domains.tsx'), 'DomainsPage') },
  { path: '/domains/$id', ...page(() => import('./pages/domains/domain.tsx'), 'DomainPage') },
  { path: '/suppressions', ...page(() => import('./pages/suppressions/suppressions.tsx'), 'SuppressionsPage') },
  { path: '/keys', ...page(() => import('./pages/keys/keys.tsx'), 'KeysPage') },
  { path: '/agents', ...page(() => import('./pages/agents/agents.tsx'), 'AgentsPage') },
  { path: '/approvals', ...page(() => import('./pages/approvals/approvals.tsx'), 'ApprovalsPage') },
  { path: '/team', ...page(() => import('./pages/team/team.tsx'), 'TeamPage') },
  { path: '/settings', ...page(() => import('./pages/settings/settings.tsx'), 'SettingsPage') },
  { path: '/statistics', ...page(() => import('./pages/statistics/statistics.tsx'), 'StatisticsPage') },
  { path: '/usage', ...page(() => import('./pages/usage/usage.tsx'), 'UsagePage') },
  { path: '/audit', ...page(() => import('./pages/audit/audit.tsx'), 'AuditPage') },
  { path: '/profile', ...page(() => import('./pages/profile/profile.tsx'), 'ProfilePage') },
].map((one) => createRoute({ getParentRoute: () => mode, errorComponent: ContentError, ...one }));

const ofOperator = [
  { path: '/', ...page(() => import('./pages/operator/queue.tsx'), 'QueuePage') },
  { path: '/accounts', ...page(() => import('./pages/operator/accounts.tsx'), 'AccountsPage') },
  { path: '/accounts/$id', ...page(() => import('./pages/operator/account.tsx'), 'AccountPage') },
  { path: '/approvals', ...page(() => import('./pages/operator/approvals.tsx'), 'OperatorApprovalsPage') },
  { path: '/keys', ...page(() => import('./pages/operator/keys.tsx'), 'OperatorKeysPage') },
  { path: '/nodes', ...page(() => import('./pages/operator/nodes.tsx'), 'NodesPage') },
  { path: '/postmaster', ...page(() => import('./pages/operator/postmaster.tsx'), 'PostmasterPage') },
  { path: '/doctor', ...page(() => import('./pages/operator/doctor.tsx'), 'DoctorPage') },
  { path: '/audit', ...page(() => import('./pages/operator/audit.tsx'), 'OperatorAuditPage') },
].map((one) => createRoute({ getParentRoute: () => operator, errorComponent: ContentError, ...one }));

export function createPortalRouter(queries: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([
      open.home(queries),
      open.signIn,
      open.welcome,
      open.reset,
      open.shared,
      open.preview,
      app.addChildren([operator.addChildren(ofOperator), mode.addChildren(ofAccount)]),
    ]),
    basepath: basePath === '' ? '/' : basePath,
    defaultPreload: 'intent',
    scrollRestoration: true,
    parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
    stringifySearch: (search) => {
      const given = Object.entries(search).filter((pair): pair is [string, string] => Boolean(pair[1]));
      return given.length === 0 ? '' : `?${new URLSearchParams(given)}`;
    },
  });
}
