/**
 * Bytes that no client library sends, over raw sockets: ambiguous framing is rejected once and closes the connection, limits apply to
 * headers, bodies, and time, and every response has the same shape.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { after, before, test } from 'node:test';
import { httpShell, type RawAnswer, readAnswers, type Shell, speak } from '../../test/kit/http-shell.ts';
import { waitUntil } from '../../test/kit/wait-until.ts';
import { staticRoutes } from './files.ts';
import { type CallerKey, defineRoute } from './route.ts';

let shell: Shell;
before(async () => {
  shell = await httpShell({ limits: { bodyBudgetBytes: 100_000 } });
});
after(() => shell.close());

const KEY = 'Host: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\nContent-Type: application/json\r\n';
const SMUGGLED = 'GET /notes/smuggled HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\n\r\n';

function assertRefusal(answer: RawAnswer | undefined, status: number, code: string): void {
  assert.ok(answer, 'a response exists');
  assert.equal(answer.status, status, answer.body);
  const body = JSON.parse(answer.body) as {
    success: boolean;
    reasonCode: string;
    error: { code: string; details: unknown };
    requestId: string;
  };
  assert.equal(body.success, false);
  assert.equal(body.error.code, code);
  assert.equal(body.reasonCode, code);
  assert.ok(Array.isArray(body.error.details));
  assert.equal(answer.headers['x-request-id'], body.requestId);
}

async function assertRefusedOnce(
  bytes: string,
  status: number,
  code = 'INVALID_REQUEST',
  port = shell.port,
): Promise<void> {
  const answers = readAnswers(await speak(port, bytes));
  assert.equal(answers.length, 1, `one response: ${JSON.stringify(answers)}`);
  assertRefusal(answers[0], status, code);
  assert.equal(answers[0]?.headers.connection, 'close');
}

test('a client that does not read its response is disconnected, but one that waits is not', async (t) => {
  let isStreaming = false;
  const endless = defineRoute<CallerKey>({
    method: 'GET',
    path: '/endless',
    summary: 'Has no end',
    tag: 'notes',
    access: { auth: 'none' },
    response: { status: 200, contentType: 'text/plain' },
    handle: () => {
      isStreaming = true;
      return { ok: true, contentType: 'text/plain', content: Readable.from(pieces(), { objectMode: false }) };
    },
  });
  const own = await httpShell({ limits: { stallTimeoutMs: 1_000, maxInProgress: 2 }, more: [endless] });
  t.after(() => own.close());
  const waiting = speak(own.port, 'POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  await waitUntil('the request to be in progress', () => own.held.started === 1);
  const stalled = connect(own.port, '127.0.0.1', () => stalled.write('GET /endless HTTP/1.1\r\nHost: a\r\n\r\n'));
  t.after(() => stalled.destroy());
  stalled.on('error', () => undefined).pause();
  // The other slot stays in use until it is cut off.
  await waitUntil('the response to start', () => isStreaming);
  await waitUntil('the slot to be in use', async () => (await fetch(`${own.url}/stream`)).status === 503);
  await waitUntil('the slot to be free', async () => (await fetch(`${own.url}/stream`)).status === 200);
  // This connection was idle longer than the other one.
  own.held.release();
  assert.equal(readAnswers(await waiting)[0]?.status, 200);
});

function* pieces(): Generator<Buffer> {
  for (;;) yield Buffer.alloc(64_000, 'x');
}

const ambiguous: Record<string, string> = {
  'Content-Length and Transfer-Encoding': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  'two Content-Lengths': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 2\r\nContent-Length: 30\r\n\r\n{}${SMUGGLED}`,
  'two equal Content-Lengths': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}${SMUGGLED}`,
  'a list as Content-Length': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 2, 2\r\n\r\n{}${SMUGGLED}`,
  'a signed Content-Length': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: +2\r\n\r\n{}${SMUGGLED}`,
  'an unknown Transfer-Encoding': `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  'gzip before chunked': `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  'chunked twice': `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${SMUGGLED}`,
  'a folded header': `GET /notes/1 HTTP/1.1\r\n${KEY}X-Folded: a\r\n b\r\n\r\n${SMUGGLED}`,
  'a space before the colon': `POST /parsed HTTP/1.1\r\n${KEY}Content-Length : 2\r\n\r\n{}${SMUGGLED}`,
  'a bare line feed': `GET /notes/1 HTTP/1.1\nHost: a\nX-Api-Key: good\nX-Id: acc_1\n\n${SMUGGLED}`,
  'a bare line feed after a header': `GET /notes/1 HTTP/1.1\r\nHost: a\nX-Api-Key: good\r\n\r\n${SMUGGLED}`,
  'a bare carriage return': `GET /notes/1 HTTP/1.1\r\nHost: a\rX-A: b\r\n\r\n${SMUGGLED}`,
  'NUL in a header': `GET /notes/1 HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n${SMUGGLED}`,
  'the absolute form of another scheme': `GET ftp://a/notes/1 HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'the absolute form with credentials': `GET http://u:p@a/notes/1 HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'the absolute form without an authority': `GET http:///notes/1 HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'the absolute form with a fragment': `GET http://a/notes/1#x HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'the absolute form without Host': `GET http://a/notes/1 HTTP/1.1\r\nX-Api-Key: good\r\nX-Id: acc_1\r\n\r\n${SMUGGLED}`,
  'the authority form of another method than CONNECT': `GET a:80 HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'the asterisk form': `OPTIONS * HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'no Host': `GET /notes/1 HTTP/1.1\r\nX-Api-Key: good\r\nX-Id: acc_1\r\n\r\n${SMUGGLED}`,
  'two Hosts': `GET /notes/1 HTTP/1.1\r\n${KEY}Host: b\r\n\r\n${SMUGGLED}`,
  'a chunk size that is no number': `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n${SMUGGLED}`,
  'a chunk longer than announced': `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: chunked\r\n\r\n2\r\n{}x\r\n0\r\n\r\n${SMUGGLED}`,
  'an unknown method': `SMUGGLE /notes/1 HTTP/1.1\r\n${KEY}\r\n${SMUGGLED}`,
  'another protocol': 'EHLO client.example\r\nMAIL FROM:<a@b>\r\n',
  'HTTP/2 without asking': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
};

for (const [what, bytes] of Object.entries(ambiguous)) {
  test(`400 is returned once and the connection is closed: ${what}`, () => assertRefusedOnce(bytes, 400));
}

test('control: the same bytes without the error get both responses', async () => {
  const first = `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: chunked\r\n\r\na\r\n{"name":"a\r\n2\r\n"}\r\n0\r\n\r\n`;
  const answers = readAnswers(await speak(shell.port, first + SMUGGLED, (text) => text.includes('smuggled')));
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [201, 200],
  );
});

test('an absolute-form target is routed by its path and query (RFC 9112 §3.2.2)', async () => {
  const key = 'X-Api-Key: good\r\nX-Id: acc_1\r\n';
  const bytes = ['http://other.example/notes/1?limit=7', 'HTTPS://[::1]:8443/notes/1?limit=7']
    .map((target) => `GET ${target} HTTP/1.1\r\nHost: a\r\n${key}\r\n`)
    .join('');
  const answers = readAnswers(await speak(shell.port, bytes, (text) => text.split('"limit":7').length === 3));
  assert.deepEqual(
    answers.map((answer) => [answer.status, answer.body]),
    [1, 2].map(() => [200, '{"id":"1","limit":7}']),
  );
  // An empty path is the root, with or without a query.
  for (const target of ['http://a', 'http://a?x=1']) {
    const [answer] = readAnswers(
      await speak(shell.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`),
    );
    assertRefusal(answer, 404, 'NOT_FOUND');
  }
});

for (const [what, line, framing, status, code] of [
  ['a chunked body without an end', 'PUT /uploads/1', 'Transfer-Encoding: chunked', 422, 'UPLOAD_MISMATCH'],
  ['a body of 100 GB', 'PUT /uploads/1', 'Content-Length: 100000000000', 422, 'UPLOAD_MISMATCH'],
  ['a body for nothing', 'PUT /nothing', 'Transfer-Encoding: chunked', 404, 'NOT_FOUND'],
  ['a body for a page', 'GET /docs', 'Transfer-Encoding: chunked', 413, 'PAYLOAD_TOO_LARGE'],
] as const) {
  test(`little is read of ${what}, and its client gets the response`, async () => {
    let bytesRead = 0;
    const page = { path: '/docs', contentType: 'text/html', read: () => Promise.reject(new Error('not asked for')) };
    const more = await httpShell({ more: staticRoutes([page]) });
    more.app.server.on('connection', (peer) => {
      peer.on('close', () => {
        bytesRead = peer.bytesRead;
      });
    });
    const piece = Buffer.alloc(65_536, 0x78);
    const chunk = framing.startsWith('C')
      ? piece
      : Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]);
    const text = await new Promise<string>((resolve) => {
      let received = '';
      const socket = connect(more.port, '127.0.0.1', () => {
        socket.write(`${line} HTTP/1.1\r\nHost: a\r\n${framing}\r\n\r\n`);
        const pour = (): void => {
          while (socket.writable && socket.write(chunk));
        };
        socket.on('drain', pour);
        pour();
      });
      socket.setEncoding('latin1').on('data', (data: string) => {
        received += data;
      });
      socket.on('error', () => {});
      socket.on('close', () => resolve(received));
    });
    await waitUntil('the end of the connection', () => bytesRead > 0);
    assertRefusal(readAnswers(text)[0], status, code);
    // One megabyte for the route, one that is discarded, and the bytes in transit.
    assert.ok(bytesRead < 5_000_000, `${bytesRead} bytes`);
    await more.close();
  });
}

test('garbage after a valid request does not affect its response', async () => {
  const good = `POST /held HTTP/1.1\r\n${KEY}Content-Length: 0\r\n\r\n`;
  const speaking = speak(shell.port, `${good}garbage\r\n\r\n`);
  await waitUntil('the held request', () => shell.held.started === 1);
  shell.held.release();
  const answers = readAnswers(await speaking);
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [200, 400],
  );
  assertRefusal(answers[1], 400, 'INVALID_REQUEST');
});

test('CONNECT is rejected', () => assertRefusedOnce(`CONNECT a:80 HTTP/1.1\r\n${KEY}\r\n`, 405, 'METHOD_NOT_ALLOWED'));

test('Upgrade is ignored and the request is handled', async () => {
  const bytes = `GET /notes/1 HTTP/1.1\r\n${KEY}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`;
  assert.equal(readAnswers(await speak(shell.port, bytes, (text) => text.includes('limit')))[0]?.status, 200);
});

test('64 KB or 3,000 headers return 431', async () => {
  await assertRefusedOnce(`GET /notes/1 HTTP/1.1\r\n${KEY}X-Long: ${'x'.repeat(65_536)}\r\n\r\n`, 431);
  await assertRefusedOnce(`GET /notes/1 HTTP/1.1\r\n${KEY}${'a:b\r\n'.repeat(3_000)}\r\n`, 431);
  await assertRefusedOnce(`GET /notes/1 HTTP/1.1\r\n${KEY}${'a:b\r\n'.repeat(100)}\r\n`, 431);
  await assertRefusedOnce(`GET /${'x'.repeat(65_536)} HTTP/1.1\r\n${KEY}\r\n`, 431);
});

test('bodies over the limit are rejected before they are sent, or when a chunked one exceeds it', async () => {
  await assertRefusedOnce(
    `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 100000000\r\n\r\n{`,
    413,
    'PAYLOAD_TOO_LARGE',
  );
  const chunk = `400\r\n${'x'.repeat(1_024)}\r\n`;
  await assertRefusedOnce(
    `POST /parsed HTTP/1.1\r\n${KEY}Transfer-Encoding: chunked\r\n\r\n${chunk.repeat(50)}`,
    413,
    'PAYLOAD_TOO_LARGE',
  );
});

test('a client that keeps sending a rejected body still gets its response', async () => {
  const response = await fetch(`${shell.url}/parsed`, {
    method: 'POST',
    headers: { 'X-Api-Key': 'good', 'X-Id': 'acc_1', 'Content-Type': 'application/json' },
    body: Buffer.alloc(20_000_000, 0x20),
  });
  assert.equal(response.status, 413);
  assert.equal(((await response.json()) as { reasonCode: string }).reasonCode, 'PAYLOAD_TOO_LARGE');
});

/** Sends these bytes without reading anything in the meantime; then returns what the server sends until it closes. */
function writeBeforeReading(port: number, bytes: readonly (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    socket.pause().setEncoding('latin1');
    let text = '';
    socket.on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('end', () => {
      socket.end();
      resolve(text);
    });
    socket.on('error', reject);
    for (const one of bytes.slice(0, -1)) socket.write(one);
    socket.write(bytes.at(-1)!, () => socket.resume());
  });
}

test('a client that sends its entire body before it reads gets 413', async (t) => {
  const limitBytes = 16_000_000;
  const large = defineRoute<CallerKey>({
    method: 'POST',
    path: '/large',
    summary: 'Has a large body',
    tag: 'notes',
    access: { auth: 'key' },
    body: { type: 'text/csv', maxBytes: limitBytes },
    response: { status: 200 },
    handle: () => ({ ok: true, body: {} }),
  });
  const { port, close } = await httpShell({ more: [large] });
  t.after(close);
  const head = 'POST /large HTTP/1.1\r\nHost: a\r\nX-Api-Key: good\r\nX-Id: acc_1\r\nContent-Type: text/csv\r\n';
  const megabyte = Buffer.alloc(1_000_000, 0x61);
  const count = 30;
  const announced = [`${head}Content-Length: ${count * megabyte.length}\r\n\r\n`, ...Array(count).fill(megabyte)];
  const chunk = Buffer.concat([Buffer.from('f4240\r\n'), megabyte, Buffer.from('\r\n')]);
  const chunked = [`${head}Transfer-Encoding: chunked\r\n\r\n`, ...Array(count).fill(chunk), '0\r\n\r\n'];
  for (const bytes of [announced, chunked]) {
    const answers = readAnswers(await writeBeforeReading(port, bytes));
    assert.equal(answers.length, 1);
    assertRefusal(answers[0], 413, 'PAYLOAD_TOO_LARGE');
    assert.equal(answers[0]?.headers.connection, 'close');
  }
});

test('a client that sends a rejected body slowly is cut off', async () => {
  let sent = 0;
  const socket = connect(shell.port, '127.0.0.1', () =>
    socket.write(`POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 100000000\r\n\r\n`),
  );
  const timer = setInterval(() => {
    sent += 1;
    socket.write('x');
  }, 50);
  await new Promise<void>((resolve) => {
    socket.on('error', () => {});
    socket.on('close', () => resolve());
    socket.resume();
  });
  clearInterval(timer);
  assert.ok(sent < 200, `${sent} bytes were sent, far fewer than in the longest time for a fast client`);
});

test('the connection stays open after a complete request is rejected', async () => {
  const refused = `POST /parsed HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}`;
  const answers = readAnswers(await speak(shell.port, refused + SMUGGLED, (text) => text.includes('smuggled')));
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [401, 200],
  );
});

test('all bodies together stay within the memory budget', async () => {
  const more = await httpShell({ limits: { bodyBudgetBytes: 100_000 } });
  const headers = { 'X-Api-Key': 'good', 'X-Id': 'acc_1', 'Content-Type': 'text/csv' };
  const send = (sizeBytes: number) =>
    fetch(`${more.url}/import`, { method: 'POST', headers, body: Buffer.alloc(sizeBytes, 0x61) });
  const refused = await send(150_000);
  assert.equal(refused.status, 503);
  assert.ok(refused.headers.get('retry-after'));
  for (let round = 0; round < 3; round += 1)
    assert.equal((await send(90_000)).status, 200, 'reserved memory is released');
  await more.close();
});

test('100 Continue is sent only if the body is accepted', async () => {
  const body = '{"name":"a"}';
  const head = `POST /parsed HTTP/1.1\r\n${KEY}Expect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`;
  const answers = readAnswers(await speak(shell.port, head + body, (text) => text.includes('"name"')));
  assert.deepEqual(
    answers.map((answer) => answer.status),
    [100, 201],
  );
  await assertRefusedOnce(
    `POST /parsed HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n`,
    401,
    'UNAUTHORIZED',
  );
  await assertRefusedOnce(`POST /parsed HTTP/1.1\r\n${KEY}Expect: 200-ok\r\nContent-Length: 5\r\n\r\n`, 417);
});

test('incomplete headers or bodies return 408', async (t) => {
  const { port, close } = await httpShell({ limits: { headersTimeoutMs: 400, bodyTimeoutMs: 300 } });
  t.after(close);
  for (const half of [
    `GET /notes/1 HTTP/1.1\r\n${KEY}`,
    `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 50\r\n\r\n{"name"`,
  ])
    await assertRefusedOnce(half, 408, 'INVALID_REQUEST', port);
});

test('a client that disconnects mid-request does not affect others', async () => {
  for (const bytes of [
    `POST /parsed HTTP/1.1\r\n${KEY}Content-Length: 50\r\n\r\n{"na`,
    `POST /parsed HTTP/1.1\r\n${KEY}`,
    SMUGGLED,
  ]) {
    await new Promise<void>((resolve) => {
      const socket = connect(shell.port, '127.0.0.1', () => socket.write(bytes, () => socket.resetAndDestroy()));
      socket.on('close', () => resolve());
    });
  }
  assert.equal(readAnswers(await speak(shell.port, SMUGGLED, (text) => text.includes('smuggled')))[0]?.status, 200);
  assert.deepEqual(
    shell.log.filter((line) => line.includes('"error"')),
    [],
  );
});
