/**
 * A separate process for one busy account: its webhook endpoints, the readers of its event streams, and a steady flow of sends. The parent
 * sends `flow` or `rest`, and receives a reply once that is done.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { apiClient, type Credentials } from '../kit/api.ts';
import { waitUntil } from '../kit/wait-until.ts';

interface Begin {
  url: string;
  credentials: Credentials;
  from: string;
  webhooks: number;
  streams: number;
  everyMs: number;
}

interface Seen {
  mails: number;
  /** Webhook requests that arrived. */
  posts: number;
  /** Events received by the streams. */
  streamed: number;
}

export interface BusyTenant {
  /** Starts sending; resolves when the load is established. */
  flow(): Promise<void>;
  /** Stops sending; resolves when every event of all messages so far has arrived at every endpoint and stream. */
  rest(): Promise<Seen>;
  close(): void;
}

/** Posts of a flow after which the load counts as established. */
const IN_FLOW = 1_000;
const EVENTS = ['Send', 'Delivery'];

export async function busyTenant(begin: Begin): Promise<BusyTenant> {
  const child = fork(import.meta.filename, ['load']);
  const ended = new AbortController();
  child.once('exit', () => ended.abort());
  const ask = async (message: Begin | 'flow' | 'rest'): Promise<Seen> => {
    child.send(message);
    const [answer] = await once(child, 'message', { signal: ended.signal });
    return answer as Seen;
  };
  await ask(begin);
  return {
    flow: async () => void (await ask('flow')),
    rest: () => ask('rest'),
    close: () => child.disconnect(),
  };
}

async function openEndpoints(seen: Seen): Promise<number> {
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      seen.posts += 1;
      response.writeHead(204).end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

async function openStream({ url, credentials }: Begin, seen: Seen): Promise<void> {
  const headers = { 'x-api-key': credentials.apiKey, 'x-id': credentials.accountId };
  const request = http.get(`${url}/events/stream`, { headers, agent: false });
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
  if (answer.statusCode !== 200) throw new Error(`a stream was answered with ${answer.statusCode}`);
  let rest = '';
  answer.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    seen.streamed += lines.filter((line) => line.startsWith('data: ')).length;
  });
}

async function load(begin: Begin): Promise<Pick<BusyTenant, 'flow' | 'rest'>> {
  const api = apiClient(() => begin.url, begin.credentials);
  const seen: Seen = { mails: 0, posts: 0, streamed: 0 };
  const port = await openEndpoints(seen);
  for (let i = 0; i < begin.webhooks; i += 1) {
    const made = await api.post('/webhooks', { url: `http://127.0.0.1:${port}/${i}`, events: EVENTS });
    if (made.status !== 201) throw new Error(made.text);
  }
  for (let i = 0; i < begin.streams; i += 1) await openStream(begin, seen);
  let timer: NodeJS.Timeout | undefined;
  const sends = new Set<Promise<void>>();
  const send = async (): Promise<void> => {
    const mail = { from: begin.from, to: 'busy@example.net', subject: 'Hello', text: 'Hello' };
    const answer = await api.post('/send', mail);
    if (answer.status !== 202) throw new Error(answer.text);
    seen.mails += 1;
  };
  return {
    flow: async () => {
      const before = seen.posts;
      timer = setInterval(() => {
        const one = send().finally(() => sends.delete(one));
        sends.add(one);
      }, begin.everyMs);
      await waitUntil('the load', () => seen.posts >= before + IN_FLOW);
    },
    rest: async () => {
      clearInterval(timer);
      await Promise.all(sends);
      const events = seen.mails * EVENTS.length;
      await waitUntil('every event at every endpoint', () => seen.posts >= events * begin.webhooks, 60_000);
      await waitUntil('every event at every stream', () => seen.streamed >= events * begin.streams, 60_000);
      return seen;
    },
  };
}

if (process.argv[2] === 'load') {
  process.on('disconnect', () => process.exit(0));
  const [begin] = (await once(process, 'message')) as [Begin];
  const tenant = await load(begin);
  process.on('message', async (message: 'flow' | 'rest') => process.send?.((await tenant[message]()) ?? {}));
  process.send?.({});
}
