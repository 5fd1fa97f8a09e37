/**
 * Large attachments with the real service: the limit is requested and approved, files are uploaded over HTTP, the message arrives at a real
 * server with the right bytes, and unauthorized callers get nothing.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import PostalMime from 'postal-mime';
import { apiClient, type JsonObject } from '../kit/api.ts';
import { missing } from '../kit/requirements.ts';
import { runningMs } from '../kit/running-time.ts';
import { closeShop, openShop } from '../kit/shop.ts';
import type { SmtpSink } from '../kit/smtp-sink.ts';
import { runCommand, type Service, startService } from '../kit/start-service.ts';
import { put, sha256, someBytes } from '../kit/upload.ts';
import { entryOf, type FileToUpload, register, sendSubmission, upload, uploadAll } from '../kit/upload-client.ts';
import { waitUntil } from '../kit/wait-until.ts';

let sink: SmtpSink;
let service: Service;

before(async () => {
  ({ sink, service } = await openShop());
});
after(() => closeShop({ sink, service }));

type Upload = { uploadUrl: string; requiredHeaders: Record<string, string> };

const mail = (to: string): JsonObject => ({
  from: 'orders@shop.example',
  to,
  subject: 'Files',
  html: '<p>See the files.</p>',
});
const arrived = (to: string) =>
  waitUntil(`the message to ${to}`, () => sink.messages.find((one) => one.to.includes(to)));
const blobFiles = (): string[] =>
  readdirSync(path.join(service.dataDir, 'blobs'), { recursive: true, withFileTypes: true }).flatMap((one) =>
    one.isFile() ? [one.name] : [],
  );

test('from a request for a larger limit to files at the recipient', async () => {
  const files: FileToUpload[] = [
    { bytes: someBytes(4_000_000), name: 'Übersicht 2026.pdf' },
    { bytes: someBytes(1), name: 'one.bin', contentType: 'application/octet-stream' },
    { bytes: someBytes(2_500_001), name: 'photo.png', contentType: 'image/png' },
  ];
  const attachments = files.map(entryOf);
  const refused = await service.api.post('/attachments', { attachments });
  assert.equal(refused.status, 413, refused.text);
  assert.match(refused.body.error.message, /the approved limit of this account is 2000000 bytes/);

  const asked = await service.api.post('/approvals', { requestedEmailBytes: 40_000_000, reason: 'Plans' });
  assert.equal(asked.status, 201, asked.text);
  const { approvals } = await service.cli('approval', 'list');
  assert.deepEqual(
    approvals.map((one: JsonObject) => [one.approvalId, one.status]),
    [[asked.body.approvalId, 'pending']],
  );
  const approved = await service.cli('approval', 'approve', asked.body.approvalId);
  assert.equal(approved.approvedEmailBytes, 40_000_000);
  assert.equal((await service.api.get('/approvals')).body[0].status, 'approved');
  const began = runningMs();
  const isFelt = async () => (await service.api.post('/attachments', { attachments })).status === 201;
  await waitUntil('the limit to apply', isFelt);
  assert.ok(runningMs() - began < 1_000, `applied after ${runningMs() - began} ms`);

  const registered = await uploadAll(service.api, files);
  const early = await service.api.get(`/attachments/${registered.id}`);
  assert.deepEqual(
    [early.body.status, early.body.files.map((one: JsonObject) => one.status)],
    ['open', Array(3).fill('uploaded')],
  );
  const sent = await sendSubmission(service.api, registered.id, mail('whole@example.com'));
  assert.equal(sent.status, 202, sent.text);
  const { content } = await arrived('whole@example.com');
  const parsed = await PostalMime.parse(content);
  assert.deepEqual(
    parsed.attachments.map((one) => [one.filename, one.mimeType, sha256(new Uint8Array(one.content as ArrayBuffer))]),
    files.map((one) => [one.name, one.contentType ?? 'application/pdf', sha256(one.bytes)]),
  );
  const { messageId } = sent.body.data;
  const stored = await waitUntil('its delivery', async () => {
    const { body } = await service.api.get(`/messages/${messageId}`);
    return body.status === 'delivered' && body;
  });
  const raw = content.toString('latin1');
  const composed = content.length - raw.indexOf('From: ');
  assert.equal(composed, stored.sizeBytes, "the checked size is the sent size without Postrider's headers");
  assert.equal((await service.api.get(`/attachments/${registered.id}`)).body.status, 'used');
  assert.equal((await upload(registered, 1, files[1]!.bytes)).status, 403);
  assert.equal(
    (await sendSubmission(service.api, registered.id, mail('x@example.com'))).body.reasonCode,
    'SUBMISSION_ALREADY_USED',
  );
});

test('a rejected request states the reason', async () => {
  const asked = await service.api.post('/approvals', { requestedEmailBytes: 30_000_000, reason: 'Video' });
  await service.cli('approval', 'reject', asked.body.approvalId, '--reason', 'Link to it instead');
  const [newest] = (await service.api.get('/approvals?limit=1')).body as unknown as JsonObject[];
  assert.equal(newest?.status, 'rejected');
  assert.equal(newest?.decisionReason, 'Link to it instead');
  await assert.rejects(service.cli('approval', 'approve', asked.body.approvalId), /is already rejected/);
  await assert.rejects(service.cli('approval', 'approve', 'apr_000000000000000000000'), /there is no approval request/);
  await assert.rejects(service.cli('approval', 'reject', asked.body.approvalId), /--reason is required/);
});

test('a sending key completes the flow and can do nothing else', async () => {
  const key = await service.cli('key', 'create', service.live.accountId, '--scope', 'send');
  const api = apiClient(() => service.url, { accountId: service.live.accountId, apiKey: key.apiKey });
  const registered = await uploadAll(api, [{ bytes: someBytes(1_000) }]);
  assert.equal((await api.get(`/attachments/${registered.id}`)).status, 200);
  assert.equal((await sendSubmission(api, registered.id, mail('scope@example.com'))).status, 202);
  assert.equal((await api.get('/approvals')).status, 403);
  await arrived('scope@example.com');
  api.close();
});

test('the OpenAPI document lists every status of an upload', async () => {
  const { body } = await service.anonymous.get('/openapi.json');
  const { responses } = body.paths['/uploads/{token}'].put;
  const responseOf = (status: string) => {
    const shared = /[^/]+$/.exec(responses[status].$ref ?? '')?.[0];
    return shared === undefined ? responses[status] : body.components.responses[shared];
  };
  const schemaOf = (status: string) => responseOf(status).content['application/json'].schema;
  assert.deepEqual(schemaOf('408'), schemaOf('400'));
  assert.match(responses['408'].description, /^INVALID_REQUEST/);
});

test('registering and reading require a key; another account finds nothing', async () => {
  const { id } = await uploadAll(service.api, [{ bytes: someBytes(10) }]);
  assert.equal((await service.anonymous.post('/attachments', { attachments: [] })).status, 401);
  assert.equal((await service.anonymous.get(`/attachments/${id}`)).status, 401);
  const other = await service.cli('account', 'create', '--name', 'Other');
  const api = apiClient(() => service.url, { accountId: other.accountId, apiKey: other.apiKey });
  assert.equal((await api.get(`/attachments/${id}`)).body.reasonCode, 'SUBMISSION_NOT_FOUND');
  assert.equal((await sendSubmission(api, id, { ...mail('x@example.com') })).status, 403);
  const sandbox = apiClient(() => service.url, { accountId: other.accountId, apiKey: other.sandboxApiKey });
  assert.equal((await sendSubmission(sandbox, id, mail('x@example.com'))).body.reasonCode, 'SUBMISSION_NOT_FOUND');
  assert.equal(
    (await sendSubmission(service.sandboxApi, id, mail('x@example.com'))).body.reasonCode,
    'SUBMISSION_NOT_FOUND',
  );
  api.close();
  sandbox.close();
});

test('changing any character of an upload URL invalidates it', async () => {
  const bytes = someBytes(20);
  const registered = await register(service.api, [{ bytes }, { bytes: someBytes(30) }]);
  const [{ uploadUrl: url, requiredHeaders: headers }] = registered.uploads as [Upload, Upload];
  const kept = blobFiles().length;
  const from = url.indexOf('/uploads/') + '/uploads/'.length;
  for (let at = from; at < url.length; at += 1) {
    const flipped = String.fromCharCode(url.charCodeAt(at) ^ 1);
    const answer = await put({ url: url.slice(0, at) + flipped + url.slice(at + 1), headers, body: bytes });
    assert.equal(answer.status, 403, `${flipped} at ${at}`);
    assert.equal(answer.body.reasonCode, 'UPLOAD_URL_INVALID');
  }
  // The signature of one file does not match another, even of the same submission.
  const other = url.replace(/-0-/, '-1-');
  assert.equal((await put({ url: other, headers, body: bytes })).status, 403);
  assert.equal(blobFiles().length, kept);
  assert.equal((await put({ url, headers, body: bytes })).status, 200);
});

test('concurrent uploads and sends: every message has its own files', async () => {
  const all = Array.from({ length: 12 }, (_, i) => ({ to: `many-${i}@example.com`, bytes: someBytes(600_000 + i) }));
  const sent = await Promise.all(
    all.map(async ({ to, bytes }) => {
      const registered = await register(service.api, [{ bytes }], to);
      const puts = await Promise.all([upload(registered, 0, bytes), upload(registered, 0, bytes)]);
      assert.deepEqual(
        puts.map((one) => one.status),
        [200, 200],
      );
      return sendSubmission(service.api, registered.id, mail(to), to);
    }),
  );
  assert.ok(sent.every((one) => one.status === 202));
  for (const { to, bytes } of all) {
    const parsed = await PostalMime.parse((await arrived(to)).content);
    assert.equal(sha256(new Uint8Array(parsed.attachments[0]?.content as ArrayBuffer)), sha256(bytes), to);
  }
});

test('files of a message that is not retained are deleted at delivery', async () => {
  const before = blobFiles();
  const { id } = await uploadAll(service.api, [{ bytes: someBytes(200_000) }, { bytes: someBytes(10) }]);
  const kept = { ...mail('none@example.com'), retainContent: 'none' };
  assert.equal((await sendSubmission(service.api, id, kept)).status, 202);
  await arrived('none@example.com');
  await waitUntil('the files to go', () => blobFiles().every((name) => before.includes(name)));
  assert.equal((await service.api.get(`/attachments/${id}`)).body.status, 'used');
});

test('the sandbox uses the same flow and sends nothing', async () => {
  const bytes = someBytes(3_000_000);
  const { id } = await uploadAll(service.sandboxApi, [{ bytes, name: 'sandboxed.pdf' }]);
  const sent = await sendSubmission(service.sandboxApi, id, {
    ...mail('inbox@example.com'),
    from: 'any@unverified.example',
  });
  assert.equal(sent.status, 202, sent.text);
  const { messageId } = sent.body.data;
  await waitUntil(
    'its outcome',
    async () => (await service.sandboxApi.get(`/messages/${messageId}`)).body.status === 'delivered',
  );
  assert.ok(!sink.messages.some((one) => one.to.includes('inbox@example.com')));
});

test('expired URLs are rejected, and repeating the call returns new ones', async () => {
  const brief = await startService({
    env: { POSTRIDER_UPLOAD_TTL_SECONDS: '1', POSTRIDER_BASE_URL: 'http://public.test/mail' },
  });
  try {
    const bytes = someBytes(10);
    const first = await register(brief.api, [{ bytes }], 'again');
    const [{ uploadUrl, requiredHeaders: headers }] = first.uploads as [Upload];
    assert.match(uploadUrl, /^http:\/\/public\.test\/mail\/uploads\//);
    // As a reverse proxy for the public URL forwards it.
    const local = (url: string): string => url.replace('http://public.test/mail', brief.url);
    await waitUntil('the URL to expire', () => Date.now() > first.expiresAt);
    const late = await put({ url: local(uploadUrl), headers, body: bytes });
    assert.equal(late.status, 403);
    assert.match(late.body.error.message, /expired.*Idempotency-Key/);
    const second = await register(brief.api, [{ bytes }], 'again');
    assert.equal(second.id, first.id);
    assert.ok(second.expiresAt > first.expiresAt);
    assert.notEqual(second.uploads[0]!.uploadUrl, uploadUrl);
    // Valid for only a second: an upload that is too late requests another URL.
    await waitUntil('an upload before the expiry', async () => {
      const [{ uploadUrl: url }] = (await register(brief.api, [{ bytes }], 'again')).uploads as [Upload];
      return (await put({ url: local(url), headers, body: bytes })).status === 200;
    });
  } finally {
    await brief.close();
  }
});

/** Forwards uploads to the service; the one with this number, from 1, is cut in the middle. */
async function cuttingProxy(cutUpload: number) {
  const proxy = { url: '', target: '', taken: [] as number[], close: () => {} };
  let seen = 0;
  const server = createServer((incoming, answer) => {
    seen += 1;
    const number = seen;
    const { host: _, ...headers } = incoming.headers;
    const sent = httpRequest(proxy.target + incoming.url, { method: incoming.method ?? '', headers }, (back) => {
      if (back.statusCode === 200) proxy.taken.push(number);
      answer.writeHead(back.statusCode ?? 500, back.headers);
      back.pipe(answer);
    });
    sent.on('error', () => answer.destroy());
    let bytes = 0;
    incoming.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (number === cutUpload && bytes > 100_000) incoming.socket.destroy();
      else sent.write(chunk);
    });
    incoming.on('end', () => sent.end());
    incoming.on('error', () => sent.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  proxy.close = () => {
    server.closeAllConnections();
    server.close();
  };
  return proxy;
}

test('send --attach uploads, sends, and prints the id; after an interruption the same command resumes', async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-send-'));
  const proxy = await cuttingProxy(2);
  const behind = await startService({
    env: { POSTRIDER_ROUTE: `smtp://127.0.0.1:${sink.port}`, POSTRIDER_BASE_URL: proxy.url },
  });
  try {
    proxy.target = behind.url;
    const { accountId, apiKey } = behind.live;
    await behind.cli('domain', 'add', accountId, 'shop.example', '--verified');
    await behind.cli('account', 'set', accountId, '--email-limit', '40000000');
    const files = ['a.pdf', 'b.pdf', 'c.pdf'].map((name) => {
      const bytes = someBytes(900_000);
      writeFileSync(path.join(folder, name), bytes);
      return { name, bytes };
    });
    const to = `cli-${randomUUID()}@example.com`;
    const paths = files.map((one) => path.join(folder, one.name));
    const state = path.join(folder, 'state');
    const env = { POSTRIDER_URL: behind.url, POSTRIDER_ID: accountId, POSTRIDER_KEY: apiKey, XDG_STATE_HOME: state };
    const args = [
      'send',
      '--from',
      'orders@shop.example',
      '--to',
      to,
      '--subject',
      'S',
      '--text',
      'T',
      '--attach',
      ...paths,
    ];
    const run = (...more: string[]) => runCommand([...args, ...more], { dataDir: behind.dataDir, env });
    const cut = await run();
    assert.equal(cut.code, 1);
    assert.match(cut.stderr, /b\.pdf was interrupted .*repeat the same command/);
    assert.deepEqual(proxy.taken, [1]);
    const second = await run('--json');
    assert.equal(second.code, 0, second.stderr);
    assert.deepEqual(proxy.taken, [1, 3, 4], 'uploaded files were not uploaded again');
    const { data } = JSON.parse(second.stdout) as { data: { messageId: string } };
    assert.match(data.messageId, /^msg_/);
    const parsed = await PostalMime.parse((await arrived(to)).content);
    assert.deepEqual(
      parsed.attachments.map((one) => [one.filename, sha256(new Uint8Array(one.content as ArrayBuffer))]),
      files.map((one) => [one.name, sha256(one.bytes)]),
    );
    assert.deepEqual(readdirSync(path.join(state, 'postrider', 'sends')), [], 'nothing is left to resume');
    const third = await run();
    assert.equal(third.code, 0, third.stderr);
    assert.match(third.stdout, /^msg_\S+ queued\n$/);
    assert.ok(!third.stdout.includes(data.messageId), 'a completed send starts over');
    const unsized = '/proc/version';
    if (existsSync(unsized)) {
      args.splice(args.indexOf('--attach') + 1, paths.length, unsized);
      assert.equal((await run()).code, 0, 'a file of unknown size');
    }
  } finally {
    await behind.close();
    proxy.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

const skip = missing('script');
test('send prints how to resume after Ctrl-C', { skip }, async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-send-'));
  const stalling = createServer(() => {});
  await new Promise<void>((resolve) => stalling.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(stalling.address() as AddressInfo).port}`;
  const behind = await startService({ env: { POSTRIDER_BASE_URL: baseUrl } });
  try {
    writeFileSync(path.join(folder, 'a.pdf'), someBytes(1_000_000));
    const mainFile = path.resolve(import.meta.dirname, '../../bin/postrider.js');
    const words = [
      '--from',
      'a@shop.example',
      '--to',
      'b@x.example',
      '--subject',
      'S',
      '--text',
      'T',
      '--attach',
      'a.pdf',
    ];
    const command = [process.execPath, mainFile, 'send', ...words].join(' ');
    const { accountId, apiKey } = behind.live;
    const env = { POSTRIDER_URL: behind.url, POSTRIDER_ID: accountId, POSTRIDER_KEY: apiKey, XDG_STATE_HOME: folder };
    const terminal = ['--quiet', '--return', '--flush', '--command', command, '/dev/null'];
    const child = spawn('script', terminal, { cwd: folder, env: { ...process.env, ...env } });
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
    await waitUntil('the upload to start', () => said.includes('Uploading'));
    child.stdin.write('\u0003');
    assert.equal(await ended, 130, said);
    assert.match(said, /Interrupted\. Repeat the same command to resume\./);
    assert.equal(readdirSync(path.join(folder, 'postrider', 'sends')).length, 1);
  } finally {
    await behind.close();
    stalling.closeAllConnections();
    stalling.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
