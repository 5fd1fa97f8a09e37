/** Users of the real service: the first login, a flood of wrong ones, and sessions on several nodes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { totpCode } from '../kit/second-factors.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const PASSWORD = 'correct horse battery staple';
const EMAIL = 'operator@localhost';

interface Called {
  status: number;
  text: string;
  cookie: string | undefined;
  retryAfter: string | undefined;
  tookMs: number;
}

interface CallOptions {
  body?: unknown;
  cookie?: string | undefined;
  from?: string;
  accountId?: string;
}

/** One agent for all calls, so that a flood of calls is a flood of connections. */
const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

function call(service: Service, line: string, { body, cookie, from, accountId }: CallOptions = {}): Promise<Called> {
  const [method = '', at = ''] = line.split(' ');
  const content = body === undefined ? '' : JSON.stringify(body);
  const headers: Record<string, string> = { origin: service.url, 'x-requested-with': 'postrider' };
  if (content !== '') headers['content-type'] = 'application/json';
  if (cookie !== undefined) headers.cookie = cookie;
  if (accountId !== undefined) headers['x-id'] = accountId;
  const startedMs = performance.now();
  return new Promise((resolve, reject) => {
    const options = { method, headers, agent, ...(from === undefined ? {} : { localAddress: from }) };
    const sent = httpRequest(new URL(at, service.url.replace('localhost', '127.0.0.1')), options, (answer) => {
      let text = '';
      answer.on('data', (chunk) => (text += chunk));
      answer.on('error', reject);
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          text,
          tookMs: performance.now() - startedMs,
          cookie: answer.headers['set-cookie']?.[0]?.split(';')[0],
          retryAfter: answer.headers['retry-after'],
        }),
      );
    });
    sent.on('error', reject);
    sent.end(content);
  });
}

function linkToken(service: Service): { token: string; accountId: string } {
  const first = JSON.parse(readFileSync(path.join(service.dataDir, 'first-run.json'), 'utf8'));
  assert.equal(first.operatorPassword, undefined);
  return { token: String(first.signInUrl).split('/welcome#token=')[1]!, accountId: first.accountId };
}

async function signIn(service: Service, from?: string): Promise<string> {
  const options = { body: { email: EMAIL, password: PASSWORD }, ...(from === undefined ? {} : { from }) };
  const answer = await call(service, 'POST /session', options);
  assert.equal(answer.status, 200, answer.text);
  return answer.cookie!;
}

let service: Service;
before(async () => {
  service = await startService();
});
after(async () => {
  agent.destroy();
  await service.close();
});

test("the first-run link sets the operator's password once and signs in", async () => {
  const { token, accountId } = linkToken(service);
  const set = await call(service, 'PUT /password', { body: { token, password: PASSWORD } });
  assert.equal(set.status, 200, set.text);
  const shown = JSON.parse(set.text);
  assert.deepEqual([shown.email, shown.isOperator, shown.accounts[0].role], [EMAIL, true, 'owner']);
  const account = await call(service, 'GET /account', { cookie: set.cookie, accountId });
  assert.equal(JSON.parse(account.text).accountId, accountId);
  const again = await call(service, 'PUT /password', { body: { token, password: 'another password' } });
  assert.equal(again.status, 401);
  await signIn(service);
});

test('a password reset at the command line ends the sessions and returns a link', async () => {
  const cookie = await signIn(service);
  const made = await service.cli('user', 'reset-password', '--email', EMAIL);
  await waitUntil('the session to end', async () => (await call(service, 'GET /session', { cookie })).status === 401);
  const byPassword = await call(service, 'POST /session', { body: { email: EMAIL, password: made.password } });
  assert.equal(byPassword.status, 200);
  const { port, hash } = new URL(String(made.resetUrl));
  assert.equal(port, new URL(service.url).port);
  const token = hash.slice('#token='.length);
  assert.equal((await call(service, 'PUT /password', { body: { token, password: PASSWORD } })).status, 200);
});

test('1,000 concurrent wrong logins do not block health, mail, or the right login', async () => {
  await signIn(service, '127.0.0.7');
  const memoryBefore = residentBytes(service.pid);
  const wrong = Array.from({ length: 1_000 }, (_, i) =>
    call(service, 'POST /session', { body: { email: i % 2 ? EMAIL : `nobody-${i}@example.com`, password: 'wrong' } }),
  );
  const mail = { from: 'a@shop.example', to: 'b@example.com', subject: 's', text: 't' };
  const meanwhile = Promise.all([
    call(service, 'GET /health'),
    signIn(service, '127.0.0.7'),
    service.sandboxApi.post('/send', mail).then(({ status }) => assert.equal(status, 202)),
  ]);
  const [health] = await meanwhile;
  assert.equal(health.status, 200);
  const answers = await Promise.all(wrong);
  const counts = new Map<number, number>();
  for (const { status } of answers) counts.set(status, (counts.get(status) ?? 0) + 1);
  assert.deepEqual([...counts.keys()].sort(), [401, 429]);
  // Thirty per address, ten for the known user, plus what refills in the meantime.
  assert.ok(counts.get(401)! <= 30 + 10 + 5, `${counts.get(401)} were checked`);
  assert.ok(answers.every(({ status, retryAfter }) => (status === 429) === (retryAfter !== undefined)));
  assert.equal(new Set(answers.filter(({ status }) => status === 401).map(({ text }) => withoutId(text))).size, 1);
  assert.ok(residentBytes(service.pid) - memoryBefore < 300_000_000);
});

test('neither the response nor its time reveals whether a user exists', async () => {
  const times = { known: [] as number[], unknown: [] as number[] };
  const texts = new Set<string>();
  for (let i = 0; i < 9; i += 1) {
    for (const [who, email] of [
      ['known', EMAIL],
      ['unknown', 'nobody@example.com'],
    ] as const) {
      // Each from a separate address, so that no address limit is reached.
      const from = `127.0.${who === 'known' ? 21 : 22}.${i + 1}`;
      const answer = await call(service, 'POST /session', { body: { email, password: 'wrong' }, from });
      if (answer.status === 429) continue;
      texts.add(`${answer.status} ${withoutId(answer.text)}`);
      times[who].push(answer.tookMs);
    }
  }
  assert.equal(texts.size, 1);
  const median = (list: number[]): number => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]!;
  const [known, unknown] = [median(times.known), median(times.unknown)];
  // One argon2 hash takes about 30 ms; without it for unknown users, the time would be a tenth.
  assert.ok(unknown > known / 3 && unknown < known * 3, `${known} ms and ${unknown} ms`);
});

function withoutId(text: string): string {
  return text.replace(/req_\w+/, '');
}

function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Number(line![1]) * 1_000;
}

/** A session that starts or ends on one node takes effect on the other within a second, even if the session is cached there. */
async function supportAccessIsFeltOnBoth([one, two]: [Service, Service], cookie: string): Promise<void> {
  const made = await call(one, 'POST /operator/accounts', { body: { name: 'Other' }, cookie });
  const { accountId } = JSON.parse(made.text);
  const access = `/operator/accounts/${accountId}/support-access`;
  const felt = async (expected: number): Promise<void> => {
    const sinceMs = performance.now();
    await waitUntil(
      `the other node to answer ${expected}`,
      async () => (await call(two, 'GET /account', { accountId, cookie })).status === expected,
    );
    assert.ok(performance.now() - sinceMs < 1_500);
  };
  await felt(404);
  assert.equal((await call(one, `POST ${access}`, { cookie })).status, 201);
  assert.equal(
    (await call(one, 'GET /account', { accountId, cookie })).status,
    200,
    'immediately on the node that created it',
  );
  await felt(200);
  assert.equal((await call(one, `DELETE ${access}`, { cookie })).status, 200);
  assert.equal((await call(one, 'GET /account', { accountId, cookie })).status, 404);
  await felt(404);
}

/** Two-factor authentication that is required on one node is required on the other within a second, with the session warm there. */
async function requirementIsFeltOnBoth(
  [one, two]: [Service, Service],
  { accountId, mine, other }: { accountId: string; mine: string; other: string },
): Promise<void> {
  const offer = await call(one, 'POST /user/totp', { cookie: mine });
  const code = totpCode(JSON.parse(offer.text).secret, Date.now());
  assert.equal((await call(one, 'PUT /user/totp', { body: { code }, cookie: mine })).status, 200);
  const require = (required: boolean) =>
    call(one, 'PUT /account/two-factor', { body: { required }, cookie: mine, accountId });
  const felt = async (expected: number): Promise<void> => {
    const sinceMs = performance.now();
    await waitUntil(
      `the other node to answer ${expected}`,
      async () => (await call(two, 'GET /account', { accountId, cookie: other })).status === expected,
    );
    assert.ok(performance.now() - sinceMs < 1_500);
  };
  await felt(200);
  assert.equal((await require(true)).status, 200);
  assert.equal((await call(one, 'GET /account', { accountId, cookie: other })).status, 403, 'at once where it began');
  await felt(403);
  assert.equal((await call(two, 'GET /account', { accountId, cookie: mine })).status, 200);
  assert.equal((await require(false)).status, 200);
  await felt(200);
  assert.equal((await call(one, 'DELETE /user/totp', { cookie: mine })).status, 200);
}

test('several nodes share sessions, their end within a second, and limits', async (t) => {
  const cluster: Cluster = await startCluster({ nodes: 2 });
  t.after(cluster.close);
  const [one, two] = cluster.nodes as [Service, Service];
  const { token, accountId } = linkToken(one);
  assert.equal((await call(two, 'PUT /password', { body: { token, password: PASSWORD } })).status, 200);
  const [mine, stolen] = [await signIn(one), await signIn(two)];
  const account = { accountId, cookie: stolen };
  for (const node of [one, two]) assert.equal((await call(node, 'GET /account', account)).status, 200);
  await supportAccessIsFeltOnBoth([one, two], mine!);
  await requirementIsFeltOnBoth([one, two], { accountId, mine: mine!, other: stolen! });
  const list = JSON.parse((await call(one, 'GET /sessions', { cookie: stolen })).text) as {
    sessionId: string;
    current: boolean;
  }[];
  const { sessionId } = list.find(({ current }) => current)!;
  // Kept in the other node's cache, so only the age of the cached entry ends it there.
  assert.equal((await call(two, 'GET /account', account)).status, 200);
  assert.equal((await call(one, `DELETE /sessions/${sessionId}`, { cookie: mine })).status, 200);
  assert.equal((await call(one, 'GET /account', account)).status, 401, 'immediately on the node that ended it');
  const endedMs = performance.now();
  let goodForMs = 0;
  await waitUntil('the other node to reject it', async () => {
    const { status, tookMs } = await call(two, 'GET /account', account);
    if (status === 200) goodForMs = performance.now() - tookMs - endedMs;
    return status === 401;
  });
  assert.ok(goodForMs < 1_000, `it was good for ${goodForMs} ms`);
  assert.equal((await call(two, 'GET /session', { cookie: mine })).status, 200, 'control: the other session');

  const guess = (node: Service, i: number) =>
    call(node, 'POST /session', { body: { email: EMAIL, password: 'wrong' }, from: `127.0.30.${i + 1}` });
  const guesses = await Promise.all(Array.from({ length: 20 }, (_, i) => guess(i % 2 ? one : two, i)));
  assert.equal(guesses.filter(({ status }) => status === 401).length, 10, 'ten at a user on all nodes together');
  assert.equal(guesses.filter(({ status }) => status === 429).length, 10);
});
