/**
 * Measures which files of src one message passes: starts the service with an inspector, warms it up, and reads V8's call counts in all its
 * threads around one POST /send, its SMTP delivery and its webhooks. Code that runs by a timer at that moment is excluded by keeping only
 * files that every one of several messages passes.
 */
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { smtpSink } from '../test/kit/smtp-sink.ts';
import { waitUntil } from '../test/kit/wait-until.ts';
import { webhookCatcher } from '../test/kit/webhook-catcher.ts';

const WARM_UP = 20;
const MESSAGES = 5;
/** After the last webhook response, for recording it. */
const SETTLED_MS = 200;

interface Coverage {
  result: { url: string; functions: { ranges: { count: number }[] }[] }[];
}

type Send = (method: string, params?: object) => Promise<unknown>;

/** Opens a session with the process, and one with each of its threads. */
async function inspect(url: string): Promise<{ sessions: Map<string, Send>; close(): void }> {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  const waiting = new Map<number, (result: unknown) => void>();
  const sessions = new Map<string, Send>();
  let last = 0;
  const ask = (post: (message: object) => void): Send => {
    return (method, params = {}) => {
      last += 1;
      const id = last;
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        post({ id, method, params });
      });
    };
  };
  const main = ask((message) => socket.send(JSON.stringify(message)));
  const receive = (text: string): void => {
    const { id, result, method, params } = JSON.parse(text);
    if (id !== undefined) waiting.get(id)?.(result);
    else if (method === 'NodeWorker.receivedMessageFromWorker') receive(params.message);
    else if (method === 'NodeWorker.attachedToWorker') {
      const { sessionId } = params;
      sessions.set(
        sessionId,
        ask((message) => void main('NodeWorker.sendMessageToWorker', { sessionId, message: JSON.stringify(message) })),
      );
    }
  };
  socket.onmessage = ({ data }) => receive(String(data));
  sessions.set('main', main);
  await main('NodeWorker.enable', { waitForDebuggerOnStart: false });
  return { sessions, close: () => socket.close() };
}

/** Returns files below `prefix` with a function that ran since the last call; the counts restart at zero. */
async function ranSince(sessions: Map<string, Send>, prefix: string): Promise<Set<string>> {
  const files = new Set<string>();
  for (const send of sessions.values()) {
    const { result } = (await send('Profiler.takePreciseCoverage')) as Coverage;
    for (const { url, functions } of result) {
      const ran = functions.some(({ ranges }) => ranges.some(({ count }) => count > 0));
      if (ran && url.startsWith(prefix)) files.add(decodeURIComponent(url.slice(prefix.length)));
    }
  }
  return files;
}

interface Running {
  url: string;
  inspector: string;
  first: Record<string, string>;
  addDomain(domain: string): void;
  close(): Promise<void>;
}

async function startInspected(root: string, relayPort: number): Promise<Running> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-figures-'));
  const main = path.join(root, 'src/main.ts');
  const env = {
    PATH: process.env.PATH,
    POSTRIDER_DATA_DIR: folder,
    POSTRIDER_HTTP_PORT: '0',
    POSTRIDER_HTTP_HOST: '127.0.0.1',
    POSTRIDER_SMTP_PORT: '0',
    POSTRIDER_SMTP_HOSTNAME: 'postrider.test',
    POSTRIDER_MIN_FREE_BYTES: '1000000',
    POSTRIDER_ROUTE: `smtp://127.0.0.1:${relayPort}`,
    POSTRIDER_WEBHOOK_ALLOW: '127.0.0.0/8',
  };
  const child = spawn(process.execPath, ['--inspect=127.0.0.1:0', main, 'serve'], {
    ...{ cwd: root, env, stdio: ['ignore', 'ignore', 'pipe'] },
  });
  let log = '';
  child.stderr?.on('data', (chunk) => {
    log += chunk;
  });
  const announced = path.join(folder, 'serving.json');
  await waitUntil('the service to serve', () => {
    if (child.exitCode !== null) throw new Error(log);
    return existsSync(announced) && /\{.*\}/s.test(readFileSync(announced, 'utf8'));
  });
  return {
    url: `http://127.0.0.1:${JSON.parse(readFileSync(announced, 'utf8')).httpPort}`,
    inspector: /ws:\/\/\S+/.exec(log)![0],
    first: JSON.parse(readFileSync(path.join(folder, 'first-run.json'), 'utf8')),
    addDomain: (domain) => {
      const { accountId } = JSON.parse(readFileSync(path.join(folder, 'first-run.json'), 'utf8'));
      execFileSync(process.execPath, [main, 'domain', 'add', accountId, domain, '--verified'], { cwd: root, env });
    },
    close: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Returns the files of src that one message passes in the checkout `root`, sorted. */
export async function messageFiles(root: string): Promise<string[]> {
  const sink = await smtpSink();
  const catcher = await webhookCatcher();
  const service = await startInspected(root, sink.port);
  try {
    service.addDomain('shop.example');
    const post = async (route: string, body: object): Promise<{ data?: { messageId: string } }> => {
      const { accountId, apiKey } = service.first;
      const headers = { 'content-type': 'application/json', 'x-api-key': apiKey!, 'x-id': accountId! };
      const answer = await fetch(service.url + route, { method: 'POST', headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${route}: ${await answer.text()}`);
      return (await answer.json()) as { data?: { messageId: string } };
    };
    await post('/webhooks', { url: catcher.url, events: ['Send', 'Delivery'] });
    const message = async (): Promise<void> => {
      const before = catcher.requests.length;
      const mail = { from: 'Shop <orders@shop.example>', to: 'ann@example.com', subject: 'Hello', html: '<p>Hi</p>' };
      await post('/send', mail);
      await waitUntil('both webhooks', () => catcher.requests.length >= before + 2);
      await new Promise((resolve) => setTimeout(resolve, SETTLED_MS));
    };
    for (let sent = 0; sent < WARM_UP; sent += 1) await message();
    const { sessions, close } = await inspect(service.inspector);
    for (const send of sessions.values()) {
      await send('Profiler.enable');
      await send('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    }
    const prefix = `${pathToFileURL(path.join(root, 'src')).href}/`;
    let passed: Set<string> | undefined;
    for (let sent = 0; sent < MESSAGES; sent += 1) {
      await ranSince(sessions, prefix);
      await message();
      const ran = await ranSince(sessions, prefix);
      passed = passed?.intersection(ran) ?? ran;
    }
    close();
    return [...passed!].sort();
  } finally {
    await service.close();
    await sink.close();
    await catcher.close();
  }
}
