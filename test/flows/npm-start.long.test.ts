/**
 * `npm start` as people run it: npm, and the service as its child. However npm is stopped or killed, the service exits as well, and first
 * finishes the messages in flight.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, type TestContext, test } from 'node:test';
import { apiClient } from '../kit/api.ts';
import { runInProcess } from '../kit/in-process-command.ts';
import { missing } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { environment, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const root = path.resolve(import.meta.dirname, '../..');
const started = new Set<number>();
after(() => {
  for (const pid of started) if (isAlive(pid)) process.kill(pid, 'SIGKILL');
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

interface Npm {
  child: ChildProcess;
  dataDir: string;
  serving: { pid: number; httpPort: number; smtpPort: number };
  ended: Promise<{ code: number | null; signal: string | null }>;
}

/** Runs it with the machine's npm and Node, in a separate process group, as a terminal would. */
async function npmStart(t: TestContext, route: string): Promise<Npm> {
  const dataDir = mkdtempSync(path.join(os.tmpdir(), 'postrider-npm-'));
  t.after(() => rmSync(dataDir, { recursive: true, force: true }));
  const inherited = Object.entries(process.env).filter(([name]) => !/^(POSTRIDER_|NODE_|npm_)/i.test(name));
  const env = {
    ...Object.fromEntries(inherited),
    PATH: (process.env.PATH ?? '')
      .split(':')
      .filter((one) => !one.includes('node_modules'))
      .join(':'),
    POSTRIDER_DATA_DIR: dataDir,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_MIN_FREE_BYTES: '1000000',
    POSTRIDER_ROUTE: route,
  };
  const child = spawn('npm', ['start'], { cwd: root, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  started.add(child.pid!);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk));
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) =>
    child.once('exit', (code, signal) => resolve({ code, signal })),
  );
  const file = path.join(dataDir, 'serving.json');
  const serving = await waitUntil('npm start to serve', () => {
    assert.equal(child.exitCode, null, said);
    if (!existsSync(file)) return undefined;
    try {
      return JSON.parse(readFileSync(file, 'utf8')) as Npm['serving'];
    } catch {
      return undefined; // Half written.
    }
  });
  started.add(serving.pid);
  assert.doesNotMatch(said, /warn/i, 'npm start prints no warning');
  return { child, dataDir, serving, ended };
}

const WAYS: { name: string; ask(npm: Npm): void; npmEnds: { code: number | null; signal: string | null } }[] = [
  ...(['SIGTERM', 'SIGINT'] as const).map((signal) => ({
    name: `${signal} to npm alone`,
    ask: ({ child }: Npm) => void child.kill(signal),
    npmEnds: { code: 0, signal: null },
  })),
  {
    name: 'Ctrl-C, sent to npm and the service',
    ask: ({ child }) => void process.kill(-child.pid!, 'SIGINT'),
    npmEnds: { code: 0, signal: null },
  },
  {
    name: 'SIGKILL to npm only, which forwards nothing',
    ask: ({ child }) => void child.kill('SIGKILL'),
    npmEnds: { code: null, signal: 'SIGKILL' },
  },
];

for (const way of WAYS) {
  test(`${way.name}: the service finishes work in progress and exits`, { skip: missing('npm') }, async (t) => {
    const { promise: held, resolve: release } = Promise.withResolvers<void>();
    const sink = await smtpSink({
      script: {
        dot: async () => {
          await held;
          return '250 2.0.0 ok';
        },
      },
    });
    t.after(() => sink.close());
    const npm = await npmStart(t, `smtp://127.0.0.1:${sink.port}`);
    const { dataDir, serving } = npm;
    const first = JSON.parse(readFileSync(path.join(dataDir, 'first-run.json'), 'utf8'));
    await runInProcess(['domain', 'add', first.accountId, 'shop.example', '--verified'], environment(dataDir));
    const api = apiClient(() => `http://127.0.0.1:${serving.httpPort}`, first);
    t.after(() => api.close());
    const mail = { from: 'a@shop.example', to: 'ann@example.com', subject: 'Hello', text: 'Hello' };
    const answer = await api.post('/send', mail);
    assert.equal(answer.status, 202, answer.text);
    await waitUntil('the message to be in transit', () => sink.commands.includes('DATA'));

    way.ask(npm);
    await waitUntil('the service to log that it stops', async () => (await api.get('/ready')).status === 503);
    assert.ok(isAlive(serving.pid), 'it waits for the reply to the message in flight');
    release();
    await waitUntil('the service to end', () => !isAlive(serving.pid), 30_000);
    assert.deepEqual(await npm.ended, way.npmEnds);
    for (const port of [serving.httpPort, serving.smtpPort]) assert.equal(await isOpen(port), false);

    const again = await startService({ dataDir, env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}` } });
    t.after(() => again.close());
    const message = await again.api.get(`/messages/${answer.body.data.messageId}`);
    assert.equal(message.body.status, 'delivered');
    assert.equal(sink.messages.length, 1, 'the peer has one copy');
  });
}

test('a service has written its compiled code before it ends, so that one that is killed leaves it', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-compiled-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const service = await startService({ env: { NODE_COMPILE_CACHE: folder } });
  t.after(() => service.close());
  await waitUntil('compiled code', () => readdirSync(folder, { recursive: true }).length > 200);
  assert.ok(isAlive(service.pid));
});
