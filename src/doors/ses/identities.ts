/** ListEmailIdentities and GetEmailIdentity: the sender domains of the account. They are added with Postrider's own API. */
import type { Caller } from '../../accounts/accounts.ts';
import { failure, ok, type Result, refuse } from '../../base/failure.ts';
import type { RouteDefinition } from '../../http/route.ts';
import { Type } from '../../http/schema-type.ts';
import { defined, type Operated, open, operation, type SesContext, type SesDoorDeps } from './endpoint.ts';
import { pageInQuery, readPage } from './pages.ts';

interface DomainBody {
  domain: string;
  status: string;
}

const MOST_PAGES = 20;
const PAGE = 100;

/** Returns the domains of the account, newest first: at most 2,000. */
export async function identityNames({ call }: SesContext): Promise<Result<DomainBody[]>> {
  const found: DomainBody[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await call('GET', '/domains', { query: { limit: PAGE, cursor } });
    if (!page.ok) return page;
    found.push(...(page.body as DomainBody[]));
    const next = page.headers['X-Next-Cursor'];
    if (typeof next !== 'string' || !('Link' in page.headers)) break;
    cursor = next;
  }
  return ok(found);
}

function verificationOf({ status }: DomainBody): 'SUCCESS' | 'PENDING' | 'TEMPORARY_FAILURE' {
  if (status === 'verified') return 'SUCCESS';
  return status === 'failing' ? 'TEMPORARY_FAILURE' : 'PENDING';
}

async function listIdentities(context: SesContext, wanted: ReturnType<typeof pageInQuery>): Promise<Operated> {
  const page = await readPage<DomainBody>(context, { path: '/domains', ...wanted });
  if (!page.ok) return page;
  const { rows, NextToken } = page.value;
  return ok(
    defined({
      EmailIdentities: rows.map((row) => ({
        IdentityType: 'DOMAIN',
        IdentityName: row.domain,
        SendingEnabled: verificationOf(row) !== 'PENDING',
        VerificationStatus: verificationOf(row),
      })),
      NextToken,
    }),
  );
}

async function getIdentity(context: SesContext): Promise<Operated> {
  const name = (context.request.params.name ?? '').toLowerCase();
  const names = await identityNames(context);
  if (!names.ok) return names;
  const found = names.value.find(({ domain }) => domain === name);
  if (found === undefined)
    return refuse(failure('NOT_FOUND', { message: `Email identity "${name.slice(0, 320)}" does not exist.` }));
  const status = verificationOf(found);
  return ok({
    IdentityType: 'DOMAIN',
    FeedbackForwardingStatus: false,
    VerifiedForSendingStatus: status !== 'PENDING',
    VerificationStatus: status,
    DkimAttributes: { SigningEnabled: true, Status: status, Tokens: [], SigningAttributesOrigin: 'EXTERNAL' },
    Policies: {},
    Tags: [],
  });
}

const listBody = open({
  PageSize: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
  NextToken: Type.Optional(Type.String({ maxLength: 5_000 })),
});

export function identityOperations(deps: SesDoorDeps): RouteDefinition<Caller>[] {
  return [
    operation(deps, {
      method: 'GET',
      path: '/identities',
      summary: 'ListEmailIdentities',
      handle: (context) => listIdentities(context, pageInQuery(context)),
    }),
    // Newer SDKs send the page in a body.
    operation(deps, {
      method: 'POST',
      path: '/list-identities',
      summary: 'ListEmailIdentities',
      body: listBody,
      handle: (context, { PageSize, NextToken }) =>
        listIdentities(context, { PageSize: PageSize === undefined ? undefined : String(PageSize), NextToken }),
    }),
    operation(deps, {
      method: 'GET',
      path: '/identities/:name',
      summary: 'GetEmailIdentity',
      handle: (context) => getIdentity(context),
    }),
  ];
}
