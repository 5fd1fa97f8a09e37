/** The account-level suppression list, in the mode of the key. SES knows two reasons: Postrider's others are shown as the closest one. */
import type { Caller } from '../../accounts/accounts.ts';
import { type Failure, failure, ok, refuse } from '../../base/failure.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import { oneOf } from '../../http/validate.ts';
import {
  defined,
  invalidField,
  type Operated,
  open,
  operation,
  type SesContext,
  type SesDoorDeps,
} from './endpoint.ts';
import { pageInQuery, readJoinedPage, readPage, secondsOf } from './pages.ts';

interface SuppressionBody {
  email: string;
  reason: 'bounce' | 'complaint' | 'unsubscribe' | 'manual';
  sourceMessageId: string | null;
  createdAt: string;
}

const OURS: Readonly<Record<string, string>> = { BOUNCE: 'bounce', COMPLAINT: 'complaint' };
const THEIRS: Readonly<Record<SuppressionBody['reason'], string>> = {
  bounce: 'BOUNCE',
  manual: 'BOUNCE',
  complaint: 'COMPLAINT',
  unsubscribe: 'COMPLAINT',
};

/** Returns the filters for the entries that are shown with this reason. */
function filtersOf(reason: string): { reason: string }[] {
  const ours = Object.keys(THEIRS) as SuppressionBody['reason'][];
  return ours.filter((one) => THEIRS[one] === reason).map((one) => ({ reason: one }));
}

function shown({ email, reason, createdAt }: SuppressionBody) {
  return { EmailAddress: email, Reason: THEIRS[reason], LastUpdateTime: secondsOf(createdAt) };
}

async function list(context: SesContext): Promise<Operated> {
  const { query } = context;
  const [first, ...others] = new Set(query.getAll('Reason'));
  if ([first, ...others].some((reason) => reason !== undefined && !Object.hasOwn(OURS, reason)))
    return invalidField('Reason', 'must be BOUNCE or COMPLAINT');
  for (const name of ['StartDate', 'EndDate']) if (query.has(name)) return invalidField(name, 'is not supported');
  const wanted = { path: '/suppressions', ...pageInQuery(context) };
  const isOneReason = first !== undefined && others.length === 0;
  const page = isOneReason
    ? await readJoinedPage<SuppressionBody>(context, { ...wanted, filters: filtersOf(first) })
    : await readPage<SuppressionBody>(context, wanted);
  if (!page.ok) return page;
  const { rows, NextToken } = page.value;
  return ok(defined({ SuppressedDestinationSummaries: rows.map(shown), NextToken }));
}

const pathOf = ({ request }: SesContext): string => `/suppressions/${encodeURIComponent(request.params.email ?? '')}`;

function missing(refusal: Failure, { request }: SesContext): { ok: false; failure: Failure } {
  if (refusal.code !== 'NOT_FOUND') return refuse(refusal);
  const message = `Email address "${(request.params.email ?? '').slice(0, 320)}" does not exist on your suppression list.`;
  return refuse(failure('NOT_FOUND', { message }));
}

async function get(context: SesContext): Promise<Operated> {
  const found = await context.call('GET', pathOf(context));
  if (!found.ok) return missing(found.failure, context);
  const entry = found.body as SuppressionBody;
  const attributes = entry.sourceMessageId === null ? {} : { Attributes: { MessageId: entry.sourceMessageId } };
  return ok({ SuppressedDestination: { ...shown(entry), ...attributes } });
}

const putBody = open({
  EmailAddress: Type.String({ minLength: 1, maxLength: 320 }),
  Reason: oneOf(['BOUNCE', 'COMPLAINT']),
});

export function suppressionOperations(deps: SesDoorDeps): RouteDefinition<Caller>[] {
  return [
    operation(deps, {
      method: 'GET',
      path: '/suppression/addresses',
      summary: 'ListSuppressedDestinations',
      handle: (context) => list(context),
    }),
    operation(deps, {
      method: 'PUT',
      path: '/suppression/addresses',
      summary: 'PutSuppressedDestination',
      body: putBody,
      handle: async ({ call }, { EmailAddress: email, Reason }) => {
        const added = await call('POST', '/suppressions', { body: { email, reason: OURS[Reason] } });
        return added.ok ? ok({}) : added;
      },
    }),
    operation(deps, {
      method: 'GET',
      path: '/suppression/addresses/:email',
      summary: 'GetSuppressedDestination',
      handle: (context) => get(context),
    }),
    operation(deps, {
      method: 'DELETE',
      path: '/suppression/addresses/:email',
      summary: 'DeleteSuppressedDestination',
      handle: async (context) => {
        const removed = await context.call('DELETE', pathOf(context));
        return removed.ok ? ok({}) : missing(removed.failure, context);
      },
    }),
  ];
}
