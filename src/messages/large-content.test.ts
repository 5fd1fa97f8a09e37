/** Messages with stored files: the streamed bytes, and the handling of changed files. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { LARGE_PARTS, type LargeMail, largeMail } from '../../test/kit/large-mail.ts';
import { compose } from '../mail/compose/compose.ts';
import { base64SizeBytes } from '../mail/compose/transfer-encoding.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { openDiskBlobs } from '../storage/blobs/disk.ts';
import { ContentFault, encodedFilesBytes, readLargeContent, streamLargeContent } from './large-content.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'postrider-large-'));
const disk = openDiskBlobs(folder);
after(() => rmSync(folder, { recursive: true, force: true }));

/** A store that only has streams, cut repeatedly at these lengths. */
function streaming(cuts: readonly number[]): Blobs {
  const { open: _, ...rest } = disk;
  return {
    ...rest,
    read: async (key) => {
      const bytes = await readFile(path.join(folder, key)).catch(() => undefined);
      if (!bytes) return undefined;
      return Readable.from(
        (function* () {
          for (let from = 0, i = 0; from < bytes.length; i += 1) {
            const cut = cuts[i % cuts.length]!;
            yield bytes.subarray(from, from + cut);
            from += cut;
          }
        })(),
        { objectMode: false },
      );
    },
  };
}

/** Copies every chunk before requesting the next one, and verifies the guarantees of Base64 lines. */
async function collect(mail: LargeMail, blobs: Blobs): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of readLargeContent(mail, blobs)) {
    if (Buffer.isBuffer(chunk)) chunks.push(Buffer.from(chunk));
    else {
      assert.ok(chunk.base64.length <= 256 * 1024);
      assert.ok(chunk.base64.subarray(-2).equals(Buffer.from('\r\n')) && chunk.base64[0] !== 0x2e);
      chunks.push(Buffer.from(chunk.base64));
    }
  }
  return Buffer.concat(chunks);
}

/** The random boundary is the only difference between two compositions of one mail. */
function withoutBoundary(mail: Buffer): string {
  const text = mail.toString('latin1');
  const token = /boundary="=_[mra]\.(\w{22})"/.exec(text)?.[1];
  return token === undefined ? text : text.replaceAll(token, 'BOUNDARY');
}

const CHUNK = 57 * 2304;
const lengths = fc.oneof(
  fc.integer({ min: 0, max: 300 }),
  fc.constantFrom(0, 1, 56, 57, 58, 76, CHUNK - 57, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 58, 400_000),
);

test('the streamed content equals the composed message and its computed size', async () => {
  const mails = fc.record({
    lengths: fc.array(lengths, { minLength: 1, maxLength: 4 }),
    inline: fc.boolean(),
    html: fc.option(fc.constantFrom('<p>x</p>', `<p>${'ü. '.repeat(3000)}</p>`), { nil: undefined }),
    text: fc.constantFrom(LARGE_PARTS.text!, '', '.', 'x'.repeat(600_000)),
    cuts: fc.array(fc.integer({ min: 1, max: 200_000 }), { minLength: 1, maxLength: 5 }),
    onDisk: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(mails, async ({ lengths: sizes, inline, html, text, cuts, onDisk }) => {
      const files = sizes.map((size, index) => ({
        name: `file ${index} ü.bin`,
        contentType: index === 1 ? 'message/rfc822' : 'image/png',
        bytes: randomBytes(size),
        ...(inline && index === 0 ? { contentId: 'first' } : {}),
      }));
      const parts = { text, ...(html === undefined ? {} : { html }) };
      const mail = await largeMail(disk, files, parts);
      const streamed = await collect(mail, onDisk ? disk : streaming(cuts));
      assert.equal(streamed.length, mail.sizeBytes);
      assert.equal(mail.sizeBytes, mail.content.length + encodedFilesBytes(mail.files));
      assert.ok(streamed.equals(mail.whole()));
      const attachments = files.map(({ bytes, contentType, ...file }) => ({
        ...file,
        // By size alone, a message/rfc822 file is not known to be 7-bit, so it is relabeled.
        contentType: contentType === 'message/rfc822' ? 'application/octet-stream' : contentType,
        content: bytes,
      }));
      const composed = compose({ ...LARGE_PARTS, ...parts, attachments });
      assert.equal(withoutBoundary(streamed), withoutBoundary(composed.content));
    }),
    { numRuns: 60 },
  );
});

test('the size formula matches the encoded lines', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 20_000 }), (size) => {
      const text = Buffer.alloc(size).toString('base64');
      const lines = text.match(/.{1,76}/g) ?? [];
      assert.equal(
        base64SizeBytes(size),
        lines.reduce((sum, line) => sum + line.length + 2, 0),
      );
    }),
  );
});

async function faultOf(mail: LargeMail, blobs: Blobs): Promise<{ fault: Error; bytes: number }> {
  let bytes = 0;
  try {
    for await (const chunk of readLargeContent(mail, blobs)) {
      bytes += Buffer.isBuffer(chunk) ? chunk.length : chunk.base64.length;
    }
  } catch (error) {
    return { fault: error as Error, bytes };
  }
  throw new Error('the content was read to its end');
}

test('a missing, changed, longer, or shorter file fails before its last lines', async () => {
  const bytes = randomBytes(3 * CHUNK + 1000);
  const place = (key: string): string => path.join(folder, key);
  const changes: [string, RegExp, (file: string) => Promise<void>][] = [
    ['one bit', /SHA-256 differs/, (file) => writeFile(file, flipped(bytes, bytes.length - 1))],
    ['one bit at the start', /SHA-256 differs/, (file) => writeFile(file, flipped(bytes, 0))],
    ['shorter', /has \d+ bytes instead of/, (file) => truncate(file, bytes.length - 1)],
    ['cut at a chunk', /has \d+ bytes instead of/, (file) => truncate(file, 2 * CHUNK)],
    ['empty', /has 0 bytes instead of/, (file) => truncate(file, 0)],
    ['missing', /is missing/, async (file) => rmSync(file)],
  ];
  for (const [name, expected, change] of changes) {
    for (const blobs of [disk, streaming([77_777])]) {
      const mail = await largeMail(disk, [{ bytes }, { bytes: Buffer.from('second') }]);
      await change(place(mail.files[0]!.blobKey));
      const { fault, bytes: given } = await faultOf(mail, blobs);
      assert.ok(fault instanceof ContentFault, `${name}: ${fault.message}`);
      assert.match(fault.message, expected, name);
      assert.equal(fault.blobKey, mail.files[0]!.blobKey);
      assert.ok(given < mail.files[0]!.at + base64SizeBytes(bytes.length), name);
    }
  }
});

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[at] = copy[at]! ^ 1;
  return copy;
}

test('a store error ends the sequence, and leaving early closes the file', async () => {
  const bytes = randomBytes(3 * CHUNK);
  const mail = await largeMail(disk, [{ bytes }]);
  let closed = 0;
  const failing: Blobs = {
    ...disk,
    open: async (key) => {
      const reader = (await disk.open!(key))!;
      let fills = 0;
      return {
        fill: (into) => (++fills === 3 ? Promise.reject(new Error('no answer')) : reader.fill(into)),
        close: async () => {
          closed += 1;
          await reader.close();
        },
      };
    },
  };
  const { fault } = await faultOf(mail, failing);
  assert.equal(fault.message, 'no answer');
  assert.equal(closed, 1);
  for await (const chunk of readLargeContent(mail, failing)) if (!Buffer.isBuffer(chunk)) break;
  assert.equal(closed, 2);
});

test('a slow reader gets the same bytes, or undefined if a file is missing', async () => {
  const mail = await largeMail(disk, [{ bytes: randomBytes(500_000) }]);
  const stream = await streamLargeContent(mail, disk);
  const digest = createHash('sha256');
  for await (const chunk of stream!) digest.update(chunk);
  assert.equal(digest.digest('hex'), createHash('sha256').update(mail.whole()).digest('hex'));
  await disk.remove(mail.files[0]!.blobKey);
  assert.equal(await streamLargeContent(mail, disk), undefined);
});
