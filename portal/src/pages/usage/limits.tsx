/** The limits of the account, and their usage if one call can count it. */
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
/** Webhooks belong to a mode; other lists are the same in both. */
const LISTS = [
  { name: 'webhooks', operation: 'listWebhooks', modes: BOTH },
  { name: 'domains', operation: 'listDomains', modes: SHARED },
  { name: 'apiKeys', operation: 'listApiKeys', modes: SHARED },
  { name: 'smtpCredentials', operation: 'listSmtpCredentials', modes: SHARED },
] as const;
const CALLS = LISTS.flatMap(({ modes, ...list }) => modes.map((mode) => ({ ...list, mode })));
const COUNTED_AT_MOST = 100;
const NEAR = 0.8;

interface Used {
  number: number;
  /** One call does not list all of them. */
  isMore: boolean;
}

/** Returns the usage by limit name; empty for limits that are not counted or not loaded yet. */
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
        <thead>
          <tr>
            <th scope="col">{usage.limitColumns.what}</th>
            <th scope="col" className={classes.number}>
              {usage.limitColumns.used}
            </th>
            <th scope="col" className={classes.number}>
              {usage.limitColumns.most}
            </th>
          </tr>
        </thead>
        <tbody>
          {(Object.keys(usage.limitNames) as Name[]).map((name) => (
            <tr key={name}>
              <th scope="row">{usage.limitNames[name]}</th>
              <UsedOf used={used[name]} most={limits[name]} />
              <td className={classes.number}>{count(limits[name])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function UsedOf({ used, most }: { used: Used | undefined; most: number }) {
  const isNear = used !== undefined && used.number >= most * NEAR;
  return (
    <td className={`${classes.number} ${isNear ? classes.near : ''}`}>
      {used === undefined ? '' : `${count(used.number)}${used.isMore && used.number < most ? '+' : ''}`}
    </td>
  );
}
