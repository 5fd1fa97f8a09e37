/** The pages of the menu and of the palette: path, name, and who can see them. */
import {
  IconActivity,
  IconAlertTriangle,
  IconBolt,
  IconBuilding,
  IconChartBar,
  IconClipboardCheck,
  IconGauge,
  IconHistory,
  IconHome,
  IconInbox,
  IconKey,
  IconMail,
  IconMailDown,
  IconRobot,
  IconRoute,
  IconSend,
  IconServer,
  IconSettings,
  IconShield,
  IconStack2,
  IconStethoscope,
  IconTemplate,
  IconTerminal2,
  IconUsers,
  IconWebhook,
  IconWorld,
} from '../icons.ts';
import type { Scope } from '../scope.ts';
import { navigation } from '../texts/shell.ts';

export interface NavigationPage {
  name: string;
  /** Below /app/live or /app/sandbox, or below /app/operator. */
  path: string;
  icon: typeof IconHome;
  isFor?(scope: Scope): boolean;
}

export interface NavigationGroup {
  name?: string;
  /** Collapsed until it is opened, or a page of it is. */
  isRare?: boolean;
  pages: readonly NavigationPage[];
}

const isOwner = (scope: Scope): boolean => scope.mayOwn;

export const ACCOUNT_PAGES: readonly NavigationGroup[] = [
  {
    pages: [
      { name: navigation.overview, path: '', icon: IconHome },
      { name: navigation.start, path: '/start', icon: IconSend, isFor: (scope) => scope.mayWrite },
    ],
  },
  {
    name: navigation.sending,
    pages: [
      { name: navigation.messages, path: '/messages', icon: IconMail },
      { name: navigation.inbox, path: '/inbox', icon: IconInbox, isFor: ({ mode }) => mode === 'sandbox' },
      { name: navigation.inbound, path: '/inbound', icon: IconMailDown },
      { name: navigation.statistics, path: '/statistics', icon: IconChartBar },
      { name: navigation.events, path: '/events', icon: IconActivity },
      { name: navigation.incidents, path: '/incidents', icon: IconAlertTriangle },
      { name: navigation.requests, path: '/requests', icon: IconTerminal2 },
      { name: navigation.suppressions, path: '/suppressions', icon: IconShield },
    ],
  },
  {
    name: navigation.building,
    pages: [
      { name: navigation.templates, path: '/templates', icon: IconTemplate },
      { name: navigation.webhooks, path: '/webhooks', icon: IconWebhook },
      { name: navigation.inboundRoutes, path: '/inbound-routes', icon: IconRoute },
      { name: navigation.domains, path: '/domains', icon: IconWorld },
      { name: navigation.keys, path: '/keys', icon: IconKey },
    ],
  },
  {
    name: navigation.administration,
    isRare: true,
    pages: [
      { name: navigation.usage, path: '/usage', icon: IconGauge },
      { name: navigation.agents, path: '/agents', icon: IconRobot, isFor: ({ mode }) => mode === 'live' },
      { name: navigation.sizeLimit, path: '/approvals', icon: IconClipboardCheck },
      { name: navigation.team, path: '/team', icon: IconUsers },
      { name: navigation.audit, path: '/audit', icon: IconHistory },
      { name: navigation.settings, path: '/settings', icon: IconSettings, isFor: isOwner },
    ],
  },
];

export const OPERATOR_PAGES: readonly NavigationGroup[] = [
  {
    pages: [
      { name: navigation.queue, path: '', icon: IconStack2 },
      { name: navigation.accounts, path: '/accounts', icon: IconBuilding },
      { name: navigation.approvals, path: '/approvals', icon: IconClipboardCheck },
      { name: navigation.operatorKeys, path: '/keys', icon: IconKey },
      { name: navigation.nodes, path: '/nodes', icon: IconServer },
      { name: navigation.postmaster, path: '/postmaster', icon: IconMail },
      { name: navigation.doctor, path: '/doctor', icon: IconStethoscope },
      { name: navigation.audit, path: '/audit', icon: IconHistory },
    ],
  },
];

/** For places that show both kinds. */
export const [OperatorIcon, AccountIcon] = [IconGauge, IconBolt];

export interface Place {
  base: string;
  groups: readonly NavigationGroup[];
}

/** Returns the part of the portal that the path belongs to. */
export function placeOf(pathname: string, scope: Scope): Place {
  if (pathname.startsWith('/app/operator')) return { base: '/app/operator', groups: OPERATOR_PAGES };
  const groups = ACCOUNT_PAGES.map((group) => ({
    ...group,
    pages: group.pages.filter((page) => page.isFor?.(scope) ?? true),
  }));
  return { base: `/app/${scope.mode}`, groups };
}
