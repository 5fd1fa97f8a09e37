/**
 * Access control of every route in the router: the table below has the minimum role of a member, or who else can call it. A route without a
 * row fails, and so does a row without a route. Every row is called in each role and from other origins.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Answer } from '../../test/kit/api.ts';
import { type Browser, type InProcessApi, inProcessApi } from '../../test/kit/in-process-api.ts';
import { roleFor } from '../http/identify.ts';
import { MEMBER_ROLES, type RouteDefinition } from '../http/route.ts';

/** `anybody`: access is granted by the URL itself, or by the body. */
type Who = 'viewer' | 'member' | 'owner' | 'user' | 'operator' | 'anybody';

const TABLE: Record<Who, string> = {
  viewer: `
    GET /emails/:id · GET /messages · GET /messages/:id · GET /messages/:id/content · GET /messages/:id/shares · GET /shares · GET /events · GET /event-types · GET /events/stream · GET /requests
    GET /statistics · GET /webhooks · GET /webhooks/:id · GET /webhooks/:id/deliveries · GET /suppressions
    GET /suppressions.csv · GET /suppressions/:email · GET /recipients/erasures · GET /recipients/erasures/:id · GET /templates · GET /templates/:id · GET /templates/:id/versions · GET /templates/:id/shares · GET /template-shares · GET /domains · GET /domains/:id
    GET /domains/:id/dns-records · GET /sandbox/inbox · GET /sandbox/inbox/:id · GET /sandbox/inbox/wait · GET /account
    GET /account/health · GET /account/logo · GET /account/notices · PATCH /account/notices · GET /audit · GET /audit.csv · GET /audit.jsonl · GET /api-keys · GET /smtp-credentials · GET /approvals · GET /users · GET /attachments/:submissionId
    GET /incidents · GET /incidents/:id · GET /inbound-routes · GET /inbound-routes/:id · GET /agent-requests · GET /agent-requests/:id
    GET /inbound · GET /inbound/:id · GET /inbound/:id/content · GET /inbound/:id/attachments/:number
    GET /saved-filters · POST /saved-filters · PATCH /saved-filters/:id · DELETE /saved-filters/:id`,
  member: `
    POST /send · POST /send/batch · POST /attachments · PATCH /messages/:id · POST /messages/:id/cancel
    POST /messages/:id/resend · POST /messages/:id/share · DELETE /shares/:id · POST /webhooks · PUT /webhooks/:id · PATCH /webhooks/:id · DELETE /webhooks/:id · POST /webhooks/:id/rotate-secret
    POST /webhooks/:id/test · POST /webhooks/:id/deliveries/:deliveryId/retry · POST /webhooks/:id/replay
    POST /recipients/erase · POST /suppressions · POST /suppressions/import · DELETE /suppressions/:email · POST /sandbox/inbox/:id/outcome
    POST /sandbox/clock/advance · POST /sandbox/clock/reset · DELETE /sandbox/inbox · POST /templates · PUT /templates/:id · PUT /templates/:id/samples · PATCH /templates/:id · DELETE /templates/:id
    POST /templates/:id/versions/:version/restore · POST /templates/:id/render · POST /templates/render · POST /templates/:id/share · DELETE /template-shares/:id
    POST /sandbox/inbound · POST /inbound-routes · PUT /inbound-routes/:id · PATCH /inbound-routes/:id · DELETE /inbound-routes/:id · POST /inbound-routes/:id/verify
    POST /agent-requests/:id/approve · POST /agent-requests/:id/decline
    POST /domains · PUT /domains · POST /domains/:id/verify · POST /domains/:id/rotate-keys · DELETE /domains/:id · POST /incidents/:id/retry`,
  owner: `
    PATCH /account · PUT /account/logo · DELETE /account/logo · PUT /account/two-factor · POST /account/resume-sending · POST /approvals · POST /api-keys · PATCH /api-keys/:keyId · DELETE /api-keys/:keyId
    POST /smtp-credentials · PATCH /smtp-credentials/:id · DELETE /smtp-credentials/:id · POST /users · PATCH /users/:id · DELETE /users/:id`,
  user: `
    GET /session · DELETE /session · GET /sessions · DELETE /sessions/:id · POST /user/totp · PUT /user/totp · DELETE /user/totp
    GET /user/passkeys · POST /user/passkeys/options · POST /user/passkeys · DELETE /user/passkeys/:id`,
  operator: `
    GET /operator/accounts · POST /operator/accounts · GET /operator/accounts/:id · PATCH /operator/accounts/:id
    GET /operator/accounts/:id/users · GET /operator/accounts/:id/queue · GET /operator/accounts/:id/suspension · POST /operator/accounts/:id/resume-sending · POST /operator/accounts/:id/support-access · DELETE /operator/accounts/:id/support-access · GET /operator/approvals · POST /operator/approvals/:id/approve
    POST /operator/approvals/:id/reject · GET /operator/queue · GET /operator/destinations
    GET /operator/destinations/:id · POST /operator/destinations/:id/resume · GET /operator/nodes · GET /operator/doctor
    GET /operator/postmaster-mail · GET /operator/postmaster-mail/:id · GET /operator/postmaster-mail/:id/content
    GET /operator/audit · GET /operator/audit.csv · GET /operator/audit.jsonl
    GET /operator/keys · POST /operator/keys · DELETE /operator/keys/:id`,
  anybody: `
    POST /session · GET /session/oidc · GET /session/oidc/callback · POST /session/passkey/options · POST /session/passkey · POST /password-reset · PUT /password · PUT /uploads/:token · GET /unsubscribe/:token
    POST /unsubscribe/:token · GET /t/:token · GET /shared/message · GET /shared/message/content · GET /shared/template · GET /inbound-files/:token`,
};

const rows = new Map<string, Who>();
for (const [who, list] of Object.entries(TABLE))
  for (const name of list.split(/[·\n]/)) if (name.trim() !== '') rows.set(name.trim(), who as Who);

const nameOf = ({ method, path }: Pick<RouteDefinition, 'method' | 'path'>): string => `${method} ${path}`;

function whoMay(route: RouteDefinition<never>): Who {
  const { auth, role } = route.access;
  if (auth === 'none') return 'anybody';
  return auth === 'key' ? roleFor({ method: route.method, ...(role && { role }) }) : auth;
}

let app: InProcessApi;
const browsers = {} as Record<(typeof MEMBER_ROLES)[number] | 'stranger', Browser>;
before(async () => {
  app = await inProcessApi();
  for (const role of MEMBER_ROLES) {
    const { email, password } = await app.user(`${role}@example.com`, role);
    browsers[role] = await app.signedIn(email, password);
  }
  const { email, password } = await app.user('stranger@example.com');
  browsers.stranger = await app.signedIn(email, password);
});
after(() => app.close());

/** Bodies are omitted, because access is checked before they are read. Streams and long polls would not end on their own. */
const HANGS = new Set(['GET /events/stream', 'GET /sandbox/inbox/wait']);
/** Routes that end the session that calls them. */
const ENDS = new Set(['DELETE /session']);

function callAs(browser: Browser, name: string, headers: Record<string, string> = {}): Promise<Answer> {
  const [method = '', path = ''] = name.split(' ');
  return browser.call(method, path.replace(/:\w+/g, 'none'), undefined, { 'x-id': app.account.id, ...headers });
}

const isForRole = (answer: Answer): boolean =>
  !(answer.status === 403 && /requires the role/.test(String(answer.body.error?.message)));

test('the table lists exactly the existing routes', () => {
  assert.deepEqual(app.routes.map(nameOf).sort(), [...rows.keys()].sort());
  for (const route of app.routes) assert.equal(whoMay(route), rows.get(nameOf(route)), nameOf(route));
  assert.equal(
    whoMay({ method: 'PUT', access: { auth: 'key' } } as RouteDefinition<never>),
    'member',
    'control: without an explicit role',
  );
});

test('each role can call exactly the routes in its row', async () => {
  for (const [name, who] of rows) {
    const least = MEMBER_ROLES.indexOf(who as never);
    if (least === -1 || HANGS.has(name)) continue;
    for (const [index, role] of MEMBER_ROLES.entries()) {
      const answer = await callAs(browsers[role], name);
      assert.equal(isForRole(answer), index >= least, `${name} as ${role}: ${answer.text.slice(0, 200)}`);
      assert.ok(answer.status !== 401 && answer.status < 500, `${name} as ${role}: ${answer.status}`);
    }
  }
});

test('an account does not exist for a user who is not a member', async () => {
  for (const [name, who] of rows) {
    if (MEMBER_ROLES.indexOf(who as never) === -1) continue;
    const answer = await callAs(browsers.stranger, name);
    assert.deepEqual([answer.status, answer.body.error.message], [404, 'No account has this id.'], name);
  }
});

test('routes that require a session return 401 without a valid one', async () => {
  const anonymous = app.browser();
  const forged = app.browser();
  forged.cookie = `postrider_session=${'a'.repeat(43)}`;
  for (const [name, who] of rows) {
    if (who === 'anybody') continue;
    for (const browser of [anonymous, forged]) assert.equal((await callAs(browser, name)).status, 401, name);
  }
});

test('a page of another site cannot change anything with the session, on any route', async () => {
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: `${app.url}.evil.example` },
    { origin: '' },
    { 'x-requested-with': '' },
    { 'x-requested-with': 'XMLHttpRequest' },
  ];
  let called = 0;
  for (const [name, who] of rows) {
    if (who === 'anybody' || name.startsWith('GET ')) continue;
    called += 1;
    for (const headers of foreign) {
      const answer = await callAs(browsers.owner, name, headers);
      assert.deepEqual(
        [answer.status, answer.body.error?.code],
        [403, 'FORBIDDEN'],
        `${name} ${JSON.stringify(headers)}`,
      );
      assert.match(answer.body.error.message, /X-Requested-With/, name);
    }
    if (ENDS.has(name)) continue;
    const control = await callAs(browsers.owner, name);
    assert.doesNotMatch(String(control.body.error?.message), /X-Requested-With/, `control: ${name} from this origin`);
  }
  assert.ok(called > 40);
});

test('an event stream takes the account and mode from its query', async () => {
  const browser = browsers.viewer;
  for (const [query, expected] of [
    [`account=${app.account.id}&mode=sandbox`, 200],
    [`account=${app.account.id}`, 200],
    ['account=acc_none', 404],
    [`account=${app.account.id}&mode=test`, 400],
  ] as const) {
    const controller = new AbortController();
    const response = await fetch(`http://127.0.0.1:${app.port}/events/stream?${query}`, {
      headers: { cookie: browser.cookie! },
      signal: controller.signal,
    });
    assert.equal(response.status, expected, query);
    controller.abort();
  }
});
