/** The limits of the account: those of lists with their usage, and those of a single email, upload or connection. */
import { Text } from '@mantine/core';
import { useQueries } from '@tanstack/react-query';
import { type Answer, callerOf, type Mode } from '../../api.ts';
import { count } from '../../parts/time.tsx';
import { useScope } from '../../scope.ts';
import { usage } from '../../texts/usage.ts';
import classes from './usage.module.css';

type Limits = Answer<'getAccount'>['limits'];
type Name = keyof typeof usage.limitNames;

const BOTH: readonly Mode[] = ['live', 'sandbox'];
const SHARED: readonly Mode[] = ['live'];
/** The sandbox lists the templates of both modes. */
const SEEN_IN_SANDBOX: readonly Mode[] = ['sandbox'];
/** Webhooks and inbound routes belong to a mode; other lists are the same in both. */
const LISTS = [
  { name: 'webhooks', operation: 'listWebhooks', modes: BOTH },
  { name: 'domains', operation: 'listDomains', modes: SHARED },
  { name: 'apiKeys', operation: 'listApiKeys', modes: SHARED },
  { name: 'smtpCredentials', operation: 'listSmtpCredentials', modes: SHARED },
  { name: 'templates', operation: 'listTemplates', modes: SEEN_IN_SANDBOX },
  { name: 'inboundRoutes', operation: 'listInboundRoutes', modes: BOTH },
] as const;
const CALLS = LISTS.flatMap(({ modes, ...list }) => modes.map((mode) => ({ ...list, mode })));
const EACH = [
  'recipientsPerEmail',
  'openSubmissions',
  'eventStreams',
  'inboxWaits',
  'inboundMailPerHour',
  'messagesPerDay',
  'messagesPerMonth',
] as const satisfies readonly Name[];
const COUNTED_AT_MOST = 100;
const NEAR = 0.8;

interface Used {
  number: number;
  /** One call does not list all of them. */
  isMore: boolean;
}

/** Returns the usage by limit name, without lists that the user may not read or that are still loading. */
function useUsed(): Partial<Record<Name, Used>> {
  const { account } = useScope();
  const lists = useQueries({
    queries: CALLS.map(({ operation, mode }) => ({
      queryKey: [operation, `${account?.accountId} ${mode}`, 'count'],
      queryFn: async ({ signal }: { signal: AbortSignal }) =>
        (await callerOf(account?.accountId, mode).call(operation, { query: { limit: COUNTED_AT_MOST } }, { signal }))
          .length,
    })),
  });
  const used: Partial<Record<Name, Used>> = {};
  for (const { name } of LISTS) {
    const numbers = lists.filter((_, at) => CALLS[at]!.name === name).map(({ data }) => data);
    if (numbers.some((number) => number === undefined)) continue;
    const isMore = numbers.some((number) => number! >= COUNTED_AT_MOST);
    used[name] = { number: numbers.reduce<number>((sum, number) => sum + number!, 0), isMore };
  }
  return used;
}

export function Limits({ of: limits }: { of: Limits }) {
  const used = useUsed();
  return (
    <>
      <Text c="dimmed" size="xs" mb="xs">
        {usage.limitsLead}
      </Text>
      <table className={classes.limits}>
        <Head columns={[usage.limitColumns.what, usage.limitColumns.used, usage.limitColumns.most]} />
        <tbody>
          {LISTS.map(({ name }) => (
            <tr key={name}>
              <th scope="row">{usage.limitNames[name]}</th>
              <UsedOf used={used[name]} most={limits[name]} />
              <td className={classes.number}>{count(limits[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <table className={classes.limits}>
        <Head columns={[usage.limitColumns.each, usage.limitColumns.most]} />
        <tbody>
          {EACH.map((name) => (
            <tr key={name}>
              <th scope="row">{usage.limitNames[name]}</th>
              <td className={classes.number}>{mostText(limits[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const mostText = (most: number | null): string => (most === null ? usage.unlimited : count(most));

function Head({ columns: [first, ...numbers] }: { columns: readonly string[] }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {numbers.map((name) => (
          <th key={name} scope="col" className={classes.number}>
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

function UsedOf({ used, most }: { used: Used | undefined; most: number }) {
  if (used === undefined) return <td className={classes.number}>–</td>;
  const isNear = used.number >= most * NEAR;
  return (
    <td className={`${classes.number} ${isNear ? classes.near : ''}`}>
      {`${count(used.number)}${used.isMore && used.number < most ? '+' : ''}`}
    </td>
  );
}
