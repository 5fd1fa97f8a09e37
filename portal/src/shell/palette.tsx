/**
 * ⌘K: finds a page by name, a sent or inbound message by id, messages by address or subject, and templates, webhooks, domains, suppressed
 * addresses, and saved filters; changes mode and appearance.
 */
import '@mantine/spotlight/styles.layer.css';
import { useMantineColorScheme } from '@mantine/core';
import { Spotlight, type SpotlightActionData, type SpotlightActionGroupData, spotlight } from '@mantine/spotlight';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { type Query, useCall } from '../api.ts';
import { basePath } from '../base-path.ts';
import { IconBolt, IconBookmark, IconEye, IconFileText, IconFlask, IconMail, IconSearch } from '../icons.ts';
import { searchTerms } from '../pages/messages/search-syntax.ts';
import { pathOfMail } from '../parts/mail-path.ts';
import { useSavedFilters } from '../parts/saved-filters.tsx';
import { useScope } from '../scope.ts';
import { palette } from '../texts/palette.ts';
import { ACCOUNT_PAGES, OPERATOR_PAGES } from './navigation.ts';
import { useResources } from './palette-resources.ts';

/** Minimum length of a message search. */
const SEARCH_FROM = 3;
const MESSAGES_AT_MOST = 5;
const FILTERS_AT_MOST = 5;
const MAIL_ID = /^(?:msg|inb)_[0-9A-Za-z]{10,}$/;

export default function Palette({ wanted }: { wanted: number }) {
  const scope = useScope();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const [query, setQuery] = useState('');
  useEffect(() => spotlight.open(), [wanted]);
  const text = query.trim();
  const isSearch = text.length >= SEARCH_FROM && !MAIL_ID.test(text) && scope.account !== undefined;
  const found = useCall('listMessages', { query: messageQuery(text) }, { enabled: isSearch, keepsLast: true });
  const resources = useResources(text, isSearch);
  const filters = useFilters(text);
  const actions = useActions(text);
  const base = `/app/${scope.mode}`;
  const go = (to: string) => () => void navigate({ to });

  const pages: SpotlightActionData[] = [
    ...ACCOUNT_PAGES.flatMap(({ pages: ofGroup }) => ofGroup)
      .filter((page) => page.isFor?.(scope) ?? true)
      .map((page) => ({ page, at: base })),
    ...(scope.person.isOperator
      ? OPERATOR_PAGES.flatMap(({ pages: ofGroup }) => ofGroup).map((page) => ({ page, at: '/app/operator' }))
      : []),
  ]
    .filter(({ page }) => page.name.toLowerCase().includes(text.toLowerCase()))
    .map(({ page, at }) => ({
      id: at + page.path,
      label: page.name,
      description: at === '/app/operator' ? palette.operator : undefined,
      leftSection: <page.icon size={16} aria-hidden />,
      onClick: go(at + page.path),
    }));
  const messages: SpotlightActionData[] = [
    ...(MAIL_ID.test(text)
      ? [{ id: text, label: palette.message(text), onClick: go(pathOfMail(scope.mode, text)) }]
      : []),
    ...(isSearch ? (found.data ?? []) : []).map((message) => ({
      id: message.messageId,
      label: message.subject || palette.noSubject,
      description: `${message.to} · ${message.status}`,
      leftSection: <IconMail size={16} aria-hidden />,
      onClick: go(`${base}/messages/${message.messageId}`),
    })),
    ...(isSearch
      ? [
          {
            id: 'all',
            label: palette.all(text),
            leftSection: <IconSearch size={16} aria-hidden />,
            onClick: () => void navigate({ to: `${base}/messages`, search: { q: text } as never }),
          },
        ]
      : []),
  ];
  const named: SpotlightActionGroupData[] = [
    { group: palette.pages, actions: namedFirst(pages, text) },
    { group: palette.actions, actions: namedFirst(actions, text) },
  ];
  const groups: SpotlightActionGroupData[] = [
    ...named.filter((group) => isNamed(group.actions[0], text)),
    { group: palette.mail, actions: messages },
    {
      group: palette.resources,
      actions: resources.map(({ id, name, path, search, icon: Icon }) => ({
        id,
        label: name,
        description: palette.kinds[path.split('/')[1] as keyof typeof palette.kinds],
        leftSection: <Icon size={16} aria-hidden />,
        onClick: () => void navigate({ to: base + path, search: search as never }),
      })),
    },
    { group: palette.filters, actions: filters },
    ...named.filter((group) => !isNamed(group.actions[0], text)),
  ].filter(({ actions }) => actions.length > 0);
  return (
    <Spotlight
      key={pathname.split('/')[2]}
      actions={groups}
      query={query}
      onQueryChange={setQuery}
      filter={(_, given) => given}
      nothingFound={palette.nothing}
      shortcut={null}
      scrollable
      centered={false}
      maxHeight={420}
      searchProps={{
        leftSection: <IconSearch size={16} />,
        placeholder: palette.placeholder,
        'aria-label': palette.placeholder,
      }}
    />
  );
}

/** Whether the text is the beginning of a word of the name, so that it more likely means the page or action than mail that contains it. */
function isNamed(action: SpotlightActionData | undefined, text: string): boolean {
  const start = text.toLowerCase();
  return start !== '' && action !== undefined && ` ${action.label!.toLowerCase()}`.includes(` ${start}`);
}

/** Sorts pages or actions with such a name before others. */
function namedFirst(actions: readonly SpotlightActionData[], text: string): SpotlightActionData[] {
  return actions.toSorted((a, b) => Number(isNamed(b, text)) - Number(isNamed(a, text)));
}

/** A search in the palette has the syntax of the search field of the messages. */
function messageQuery(text: string): Query<'listMessages'> {
  const { text: q, tags: tag, ...fields } = searchTerms(text);
  return { ...fields, ...(q !== '' && { q }), ...(tag.length > 0 && { tag }), limit: MESSAGES_AT_MOST };
}

/** Returns the saved filters whose name contains the text. */
function useFilters(text: string): SpotlightActionData[] {
  const { mode, account } = useScope();
  const navigate = useNavigate();
  const { filters } = useSavedFilters(account !== undefined);
  return filters
    .filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
    .slice(0, FILTERS_AT_MOST)
    .map(({ savedFilterId: id, name, list, query }) => ({
      id,
      label: name,
      description: palette.lists[list],
      leftSection: <IconBookmark size={16} aria-hidden />,
      onClick: () => void navigate({ to: `/app/${mode}/${list}`, search: query as never }),
    }));
}

/** Returns the actions of the palette besides opening something. */
function useActions(text: string): SpotlightActionData[] {
  const { mode, account } = useScope();
  const navigate = useNavigate();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const other = mode === 'live' ? 'sandbox' : 'live';
  const scheme = colorScheme === 'dark' ? 'light' : 'dark';
  const ModeIcon = other === 'live' ? IconBolt : IconFlask;
  const all: SpotlightActionData[] = [
    ...(account === undefined
      ? []
      : [
          {
            id: 'mode',
            label: palette.switchTo[other],
            leftSection: <ModeIcon size={16} aria-hidden />,
            onClick: () => void navigate({ to: `/app/${other}` }),
          },
        ]),
    {
      id: 'appearance',
      label: palette.appearance[scheme],
      leftSection: <IconEye size={16} aria-hidden />,
      onClick: () => setColorScheme(scheme),
    },
    {
      id: 'documentation',
      label: palette.documentation,
      leftSection: <IconFileText size={16} aria-hidden />,
      onClick: () => location.assign(`${basePath}/docs`),
    },
  ];
  return all.filter(({ label }) => label!.toLowerCase().includes(text.toLowerCase()));
}
