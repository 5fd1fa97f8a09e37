/**
 * `postrider serve --processes 3` on PostgreSQL: the processes share ports, metrics, and one log; a killed process is replaced, and one
 * signal stops all of them. Messages are counted at the relay.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { after, before, test } from 'node:test';
import { freePorts } from '../kit/free-ports.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { type TempPostgres, tempPostgres } from '../kit/temp-postgres.ts';
import { waitUntil } from '../kit/wait-until.ts';

const PROCESSES = 3;
const MESSAGES = 60;

let postgres: TempPostgres;
let sink: SmtpSink;
let service: Service;
let env: Record<string, string>;

before(async () => {
  postgres = await tempPostgres();
  const [httpPort, smtpPort] = await freePorts(2);
  sink = await smtpSink();
  env = {
    POSTRIDER_HTTP_PORT: String(httpPort),
    POSTRIDER_SMTP_PORT: String(smtpPort),
    POSTRIDER_DATABASE_URL: postgres.url,
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`,
    POSTRIDER_LOG_LEVEL: 'info',
  };
  service = await startService({ env, args: ['--processes', String(PROCESSES)] });
  await service.cli('domain', 'add', service.live.accountId, 'shop.example', '--verified');
});
after(async () => {
  await service?.close();
  await sink?.close();
  await postgres?.drop();
});

const children = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number);
const received = (): string[] => sink.messages.flatMap(({ to }) => to);

/** On a connection of its own, so that any process may accept it. */
async function call(path: string, { body, headers = {} }: { body?: unknown; headers?: Record<string, string> } = {}) {
  const { accountId, apiKey } = service.live;
  const response = await fetch(service.url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      Connection: 'close',
      'Content-Type': 'application/json',
      ...(headers.Authorization === undefined && { 'X-Api-Key': apiKey, 'X-Id': accountId }),
      ...headers,
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
}

const send = (to: string) =>
  call('/send', { body: { from: 'a@shop.example', to, subject: 'Hello', text: 'It works.' } });

const acceptedOf = (text: string): number =>
  Number(/^postrider_messages_accepted_total\{mode="live"\} (\d+)$/m.exec(text)?.[1]);

test('each process is a node, and shares the ports of the others', async () => {
  await waitUntil('all processes', () => children(service.pid).length === PROCESSES);
  const { operatorKey } = await service.cli('operator-key', 'create', '--name', 'test', '--scope', 'read');
  const headers = { Authorization: `Bearer ${operatorKey}` };
  await waitUntil(
    'a node for each process',
    async () => (JSON.parse((await call('/operator/nodes', { headers })).text) as unknown[]).length === PROCESSES,
  );
  for (let index = 0; index < MESSAGES; index += 1) assert.equal((await send(`${index}@x.example`)).status, 202);
  await waitUntil('all messages', () => received().length >= MESSAGES);
  assert.equal(new Set(received()).size, MESSAGES);
});

test('every scrape returns the sum of all processes', async () => {
  for (let scrape = 0; scrape < PROCESSES * 2; scrape += 1) {
    const { status, text } = await call('/metrics');
    assert.equal(status, 200);
    assert.equal(acceptedOf(text), MESSAGES);
    assert.match(text, /^postrider_build_info\{.*\} 1$/m);
    assert.match(text, /^postrider_queue_depth_messages \d$/m);
  }
});

test('a killed process is replaced while the others accept mail', async () => {
  const [killed] = children(service.pid);
  process.kill(killed!, 'SIGKILL');
  for (let index = 0; index < MESSAGES; index += 1) {
    // A connection that the killed process had accepted breaks; the client repeats the request, as clients do.
    const status = await send(`after-${index}@x.example`).then(
      (one) => one.status,
      () => send(`after-${index}@x.example`).then((one) => one.status),
    );
    assert.equal(status, 202);
  }
  const isReplaced = (): boolean => {
    const now = children(service.pid);
    return now.length === PROCESSES && !now.includes(killed!);
  };
  await waitUntil('the replacement', isReplaced, 30_000);
  assert.match(service.log, /service process ended; restarting it/);
  await waitUntil('all messages', () => new Set(received()).size >= MESSAGES * 2, 60_000);
  assert.equal(acceptedOf((await call('/metrics')).text), MESSAGES * 2, 'the sum includes the ended process');
});

test('one signal stops all processes, and the log has only complete lines', async () => {
  const pids = children(service.pid);
  assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null });
  for (const pid of pids) assert.throws(() => process.kill(pid, 0), { code: 'ESRCH' });
  for (const line of service.log.trim().split('\n')) assert.doesNotThrow(() => JSON.parse(line), line);
});

test('a process that cannot start ends the command with its error', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => taken.once('listening', resolve));
  const { port } = taken.address() as { port: number };
  const { code, stderr } = await runCommand(['serve', '--processes', '2'], {
    dataDir: service.dataDir,
    env: { ...env, POSTRIDER_HTTP_PORT: String(port) },
  });
  taken.close();
  assert.notEqual(code, 0);
  assert.match(stderr, /postrider: .*port/i);
});

test('the embedded database and ports chosen by the system are refused', async () => {
  const refusedWith = async (given: Record<string, string>): Promise<string> => {
    const { code, stderr } = await runCommand(['serve', '--processes', '2'], { dataDir: service.dataDir, env: given });
    assert.equal(code, 2);
    return stderr;
  };
  assert.match(await refusedWith({}), /--processes needs PostgreSQL.*set POSTRIDER_DATABASE_URL/);
  assert.match(
    await refusedWith({ ...env, POSTRIDER_SMTP_PORT: '0' }),
    /--processes needs fixed ports.*set POSTRIDER_SMTP_PORT/,
  );
});
