/** The HTTP shell with a few test routes, and a raw socket: for requests that no client library sends, and responses read byte by byte. */
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import type { Actor } from '../../src/base/actor.ts';
import { failure, Unavailable } from '../../src/base/failure.ts';
import { createLog } from '../../src/base/log.ts';
import { createHttpApp, type HttpApp, type HttpAppOptions } from '../../src/http/app.ts';
import { type CallerKey, defineRoute, type RouteDefinition } from '../../src/http/route.ts';
import { Type } from '../../src/http/schema-type.ts';
import { closed, mapOf } from '../../src/http/validate.ts';

export const KEY_HEADERS = { 'X-Api-Key': 'good', 'X-Id': 'acc_1' };

const noteSchema = closed({
  name: Type.String({ minLength: 1, maxLength: 40 }),
  tags: Type.Optional(Type.Array(Type.String({ maxLength: 10 }), { maxItems: 3 })),
  metadata: Type.Optional(mapOf(Type.String({ maxLength: 100 }), { maxProperties: 20 })),
});

/** Work that a test holds: handlers of /held wait until release() is called. */
export interface Held {
  started: number;
  aborted: number;
  release(): void;
}

function shellRoutes(held: Held, gate: Promise<void>): RouteDefinition<CallerKey>[] {
  const respond = { status: 201 };
  const base = {
    tag: 'notes',
    access: { auth: 'key' },
    body: { schema: noteSchema, maxBytes: 2_000 },
    response: respond,
  } as const;
  return [
    defineRoute({
      ...base,
      method: 'POST',
      path: '/parsed',
      summary: 'Validated by the shell',
      handle: (request) => ({ ok: true, body: { name: request.body.name } }),
    }),
    defineRoute({
      ...base,
      method: 'POST',
      path: '/raw-first',
      summary: 'Validated by its handler',
      body: { ...base.body, rawFirst: true },
      handle(request) {
        const parsed = request.parse();
        return parsed.ok ? { ok: true, body: { name: parsed.value.name } } : parsed;
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/notes/:id',
      summary: 'One note',
      tag: 'notes',
      access: { auth: 'key', scope: 'send' },
      query: closed({ limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })) }),
      response: { status: 200 },
      handle: (request) => ({ ok: true, body: { id: request.params.id, limit: request.query.limit ?? null } }),
    }),
    defineRoute({
      method: 'POST',
      path: '/notes/:id/cancel',
      summary: 'Takes no body',
      tag: 'notes',
      access: { auth: 'key' },
      response: { status: 200 },
      handle: () => ({ ok: true, body: { message: 'cancelled' } }),
    }),
    defineRoute({
      method: 'POST',
      path: '/import',
      summary: 'CSV',
      tag: 'notes',
      access: { auth: 'key' },
      body: { type: 'text/csv' },
      response: { status: 200 },
      handle: (request) => ({ ok: true, body: { text: request.body } }),
    }),
    defineRoute({
      method: 'PUT',
      path: '/uploads/:id',
      summary: 'Streamed',
      tag: 'notes',
      access: { auth: 'none' },
      body: { type: 'stream' },
      response: { status: 200 },
      async handle(request) {
        let size = 0;
        for await (const chunk of request.stream.iterator({ destroyOnReturn: false })) {
          size += (chunk as Buffer).length;
          if (size > 1_000_000) return { ok: false, failure: failure('UPLOAD_MISMATCH') };
        }
        return { ok: true, contentType: 'text/plain', content: String(size) };
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/stream',
      summary: 'A stream',
      tag: 'notes',
      access: { auth: 'none' },
      response: { status: 200, contentType: 'message/rfc822' },
      handle: () => ({ ok: true, contentType: 'message/rfc822', content: Readable.from(['one ', 'two']) }),
    }),
    defineRoute({
      method: 'GET',
      path: '/broken/:how',
      summary: 'Throws',
      tag: 'notes',
      access: { auth: 'none' },
      response: { status: 200 },
      handle(request) {
        if (request.params.how === 'outage') throw new Unavailable('disk /secret/path is gone');
        throw new Error('SELECT secret FROM internals');
      },
    }),
    defineRoute({
      method: 'POST',
      path: '/intake',
      summary: 'Takes on mail',
      tag: 'notes',
      access: { auth: 'key' },
      load: { acceptsMail: true },
      response: { status: 202 },
      handle: () => ({ ok: true, body: { taken: true } }),
    }),
    defineRoute({
      method: 'POST',
      path: '/held',
      summary: 'Waits for the test',
      tag: 'notes',
      access: { auth: 'none' },
      response: { status: 200 },
      async handle() {
        held.started += 1;
        await gate;
        return { ok: true, body: { done: true } };
      },
    }),
    defineRoute({
      method: 'GET',
      path: '/follow',
      summary: 'Waits for ever',
      tag: 'notes',
      access: { auth: 'none' },
      load: { waits: true },
      response: { status: 200 },
      async handle(request) {
        held.started += 1;
        await new Promise((resolve) => request.signal.addEventListener('abort', resolve));
        held.aborted += 1;
        return { ok: true, body: [] };
      },
    }),
  ];
}

export interface Shell {
  app: HttpApp;
  port: number;
  url: string;
  held: Held;
  /** Lines of the log, as written. */
  log: string[];
  close(): Promise<void>;
}

export async function httpShell(
  options: Partial<HttpAppOptions<CallerKey>> & { more?: RouteDefinition<CallerKey>[] } = {},
): Promise<Shell> {
  const log: string[] = [];
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const held: Held = { started: 0, aborted: 0, release: () => release() };
  const { more = [], ...rest } = options;
  const app = createHttpApp<CallerKey>({
    host: '127.0.0.1',
    port: 0,
    log: createLog('info', (line) => log.push(line)),
    routes: [...shellRoutes(held, gate), ...more],
    authenticate: async (headers) => {
      const key = headers['x-api-key'];
      if ((key !== 'good' && key !== 'small') || headers['x-id'] !== 'acc_1') {
        return { ok: false, failure: failure('UNAUTHORIZED') };
      }
      const actor: Actor = { kind: 'key', id: key, name: key };
      return { ok: true, value: { keyId: key, scope: key === 'good' ? 'full' : 'send', mode: 'live', actor } };
    },
    ...rest,
  });
  const { port } = await app.listen();
  const close = async () => {
    release();
    await app.stop({ deadlineMs: 500 });
  };
  return { app, port, url: `http://127.0.0.1:${port}`, held, log, close };
}

/** Sends these bytes and reads until the server closes, or until `enough` returns true for the received text. */
export function speak(port: number, bytes: string | Buffer, enough?: (text: string) => boolean): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes));
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`the server neither closed nor responded completely: ${text}`));
    }, 30_000);
    socket.setEncoding('latin1');
    socket.on('data', (chunk: string) => {
      text += chunk;
      if (enough?.(text)) socket.destroy();
    });
    // A reset after the response is fine; without a response the text is empty and the test fails.
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(text);
    });
  });
}

export interface RawAnswer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** Parses consecutive responses with a Content-Length. */
export function readAnswers(text: string): RawAnswer[] {
  const answers: RawAnswer[] = [];
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    if (end === -1) throw new Error(`not an HTTP answer: ${rest}`);
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n');
    const headers = Object.fromEntries(
      lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 2)]),
    );
    const length = Number(headers['content-length'] ?? 0);
    const body = rest.slice(end + 4, end + 4 + length);
    answers.push({ status: Number(first.split(' ')[1]), headers, body });
    rest = rest.slice(end + 4 + length);
    if (answers.at(-1)?.status === 100) rest = text.slice(text.indexOf('\r\n\r\n') + 4);
  }
  return answers;
}
