/** The log of requests of the last 30 days: API calls, and rejected SMTP commands; each row opens next to the list. */
import { usePages } from '../../api.ts';
import { AsCode } from '../../parts/as-code.tsx';
import { Connection } from '../../parts/connection.tsx';
import { ListPage } from '../../parts/list-page.tsx';
import { Notice } from '../../parts/notice.tsx';
import type { Column } from '../../parts/rows.tsx';
import { Time } from '../../parts/time.tsx';
import { useSearchState } from '../../search-state.ts';
import { requests } from '../../texts/requests.ts';
import { RequestDetail } from './detail.tsx';
import { RequestFilters, useFilter, useKeys } from './filters.tsx';
import { keysOf } from './keys.ts';
import { callOfRequest, type LoggedRequest, RequestStatus } from './logged-request.tsx';
import classes from './requests.module.css';

const EVERY_MS = 10_000;

/** Describes the result of a request in the list: the error, or that mail was accepted. */
const resultOf = ({ message, messageId }: LoggedRequest): string =>
  message ?? (messageId === undefined ? '' : requests.accepted);

const columnsOf = (callerOf: (one: LoggedRequest) => string): readonly Column<LoggedRequest>[] => [
  {
    name: requests.columns.call,
    phone: 'title',
    cell: (one) => <span className={`mono ${classes.clipped}`}>{callOfRequest(one)}</span>,
    text: callOfRequest,
    width: '21%',
  },
  {
    name: requests.columns.status,
    phone: 'badge',
    cell: (one) => <RequestStatus of={one} />,
    text: ({ status }) => status,
    width: '5rem',
  },
  {
    name: requests.columns.result,
    phone: 'detail',
    cell: (one) => <span className={classes.clipped}>{resultOf(one)}</span>,
    text: (one) => [one.code, resultOf(one)].filter(Boolean).join(': '),
  },
  {
    name: requests.columns.who,
    cell: (one) => <span className={classes.clipped}>{callerOf(one)}</span>,
    text: callerOf,
    width: '13%',
  },
  {
    name: requests.columns.duration,
    cell: ({ durationMs }) => durationMs !== undefined && requests.duration(durationMs),
    text: ({ durationMs }) => durationMs,
    width: '6rem',
    atEnd: true,
  },
  {
    name: requests.columns.when,
    phone: 'time',
    cell: ({ time }) => <Time at={time} />,
    text: ({ time }) => time,
    width: '7.5rem',
    atEnd: true,
  },
];

function useCallers(): (one: LoggedRequest) => string {
  const keys = useKeys();
  return ({ keyId, smtpCredentialId }) => {
    const key = keys.find((one) => one.keyId === keyId)?.name;
    return key ?? keyId ?? smtpCredentialId ?? '';
  };
}

function emptyOf({ isFiltered, status }: { isFiltered: boolean; status: string | undefined }) {
  if (status === 'failed') return { title: requests.noneFailed, hint: requests.noneFailedHint };
  if (isFiltered) return { title: requests.noneFiltered };
  return { title: requests.none, hint: requests.noneHint };
}

export function RequestsPage() {
  const [, setSearch] = useSearchState();
  const query = useFilter();
  const list = usePages('listRequests', { query }, { everyMs: EVERY_MS });
  const { status, ...others } = query;
  const isFiltered = status !== 'all' || Object.values(others).some((one) => one !== undefined);
  const omitted = Number(list.data?.pages[0]?.headers.get('x-omitted-requests') ?? 0);
  const connection = list.error ? 'off' : list.items === undefined ? 'connecting' : 'live';
  return (
    <ListPage
      title={requests.title}
      lead={requests.lead}
      badge={<Connection state={connection} />}
      code={<AsCode operation="listRequests" input={{ query }} />}
      filters={
        <>
          <RequestFilters />
          {omitted > 0 && query.status !== 'failed' && <Notice>{requests.omitted(omitted)}</Notice>}
        </>
      }
      columns={columnsOf(useCallers())}
      list={list}
      keyOf={keysOf(list.items ?? [])}
      details={{
        title: (one) => one.code ?? callOfRequest(one),
        content: (one, close) => (
          <RequestDetail
            of={one}
            onSame={() => {
              setSearch({ code: one.code });
              close();
            }}
          />
        ),
      }}
      empty={emptyOf({ isFiltered, status: query.status })}
      csvName="requests"
    />
  );
}
