/**
 * Unusual requests for upload URLs: the target in absolute form, as behind some proxies, and endless bodies, of which no more than the
 * file's size and a little is read.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { readAnswers } from '../kit/http-shell.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { someBytes } from '../kit/upload.ts';
import { register } from '../kit/upload-client.ts';

let service: Service;
before(async () => {
  service = await startService();
});
after(() => service.close());

interface Poured {
  text: string;
  /** Bytes sent by this process. */
  sentBytes: number;
}

/** Writes a head and then the same piece repeatedly, as fast as it is read, until the server closes. */
function pour(head: string, piece: Buffer | undefined): Promise<Poured> {
  return new Promise((resolve) => {
    let text = '';
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1', () => {
      socket.write(head);
      const fill = (): void => {
        while (piece && socket.writable && socket.write(piece));
      };
      socket.on('drain', fill);
      fill();
    });
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', () => undefined);
    socket.on('close', () => resolve({ text, sentBytes: socket.bytesWritten - socket.writableLength }));
  });
}

async function head(
  bytes: Buffer,
  framing: string,
  target = (url: string): string => new URL(url).pathname,
): Promise<string> {
  const { uploads } = await register(service.api, [{ bytes }]);
  const { uploadUrl, requiredHeaders } = uploads[0]!;
  const lines = Object.entries(requiredHeaders).map(([name, value]) => `${name}: ${value}`);
  return [
    `PUT ${target(uploadUrl)} HTTP/1.1`,
    'Host: other.example',
    ...lines,
    framing,
    'Connection: close',
    '',
    '',
  ].join('\r\n');
}

const codeOf = (body: string | undefined): unknown => (JSON.parse(body ?? '{}') as { reasonCode?: unknown }).reasonCode;

test('accepts the signed URL in absolute form', async () => {
  const bytes = Buffer.from('x'.repeat(100));
  const good = await head(bytes, `Content-Length: ${bytes.length}`, (url) => url);
  assert.match(good, /^PUT http:\/\//);
  assert.equal(readAnswers((await pour(good + bytes.toString(), undefined)).text)[0]?.status, 200);
  const altered = await head(bytes, `Content-Length: ${bytes.length}`, (url) => `${url}x`);
  assert.equal(
    codeOf(readAnswers((await pour(altered + bytes.toString(), undefined)).text)[0]?.body),
    'UPLOAD_URL_INVALID',
  );
});

test('cuts off an endless body and one of 100 GB early', async () => {
  const piece = Buffer.alloc(65_536, 0x78);
  const chunk = Buffer.concat([Buffer.from('10000\r\n'), piece, Buffer.from('\r\n')]);
  const bytes = someBytes(100_000);
  for (const [framing, what] of [
    ['Transfer-Encoding: chunked', chunk],
    ['Content-Length: 100000000000', piece],
  ] as const) {
    const { text, sentBytes } = await pour(await head(bytes, framing), what);
    assert.equal(codeOf(readAnswers(text)[0]?.body), 'UPLOAD_MISMATCH', framing);
    // The kernel's buffers of both ends are additional.
    assert.ok(sentBytes < 20_000_000, `${framing}: ${sentBytes} bytes`);
  }
});
