import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manifestEntry } from '../../test/kit/upload.ts';
import { ok } from '../base/failure.ts';
import { manifestHash, readManifest } from './manifest.ts';

const bytes = Buffer.from('content');
const entry = (changes: Record<string, unknown> = {}): Record<string, unknown> => ({
  ...manifestEntry(bytes),
  ...changes,
});

function refusalOf(value: unknown): { code: string; fields: string[] } {
  const result = readManifest(ok(value));
  if (result.ok) return { code: 'taken', fields: [] };
  return { code: result.failure.code, fields: result.failure.details.map((one) => one.field) };
}

test('a manifest of 1 to 10 files is read in order, with digests in either case', () => {
  const entries = Array.from({ length: 10 }, (_, i) => entry({ name: `file ${i}.pdf`, sizeBytes: i }));
  entries[3] = entry({ sha256: manifestEntry(bytes).sha256.toUpperCase() });
  const result = readManifest(ok({ attachments: entries }));
  assert.ok(result.ok);
  assert.deepEqual(
    result.value.map((item) => [item.name, item.sizeBytes, item.sha256.toString('hex')]),
    entries.map((one) => [one.name, one.sizeBytes, String(one.sha256).toLowerCase()]),
  );
});

test('every issue is reported by path', () => {
  const cases: [value: unknown, fields: string[]][] = [
    [undefined, ['']],
    [[], ['']],
    [{}, ['attachments']],
    [{ attachments: [] }, ['attachments']],
    [{ attachments: Array.from({ length: 11 }, () => entry()) }, ['attachments']],
    [{ attachments: [entry()], from: 'a@example.com' }, ['from']],
    [{ attachments: [entry()], accountId: 'acc_2', subject: 'x' }, ['accountId', 'subject']],
    [{ attachments: [entry({ content: 'QQ==' })] }, ['attachments[0].content']],
    [{ attachments: [entry(), 'x', entry({ name: 7 })] }, ['attachments[1]', 'attachments[2].name']],
    [{ attachments: [{}] }, ['name', 'contentType', 'sizeBytes', 'sha256'].map((one) => `attachments[0].${one}`)],
    [{ attachments: [entry({ sizeBytes: -1 })] }, ['attachments[0].sizeBytes']],
    [{ attachments: [entry({ sizeBytes: 1.5 })] }, ['attachments[0].sizeBytes']],
    [{ attachments: [entry({ sizeBytes: '7' })] }, ['attachments[0].sizeBytes']],
    [{ attachments: [entry({ sizeBytes: 1e300 })] }, ['attachments[0].sizeBytes']],
    [{ attachments: [entry({ sha256: 'a'.repeat(63) })] }, ['attachments[0].sha256']],
    [{ attachments: [entry({ sha256: 'g'.repeat(64) })] }, ['attachments[0].sha256']],
    [{ attachments: [entry({ contentType: 'pdf' })] }, ['attachments[0].contentType']],
    [{ attachments: [entry({ contentType: 'a/b\r\nBcc: x' })] }, ['attachments[0].contentType']],
    [{ attachments: [entry({ name: '' })] }, ['attachments[0].name']],
    [{ attachments: [entry({ name: 'x'.repeat(5_000) })] }, ['attachments[0].name']],
    [{ attachments: [entry({ name: 'é'.repeat(200) })] }, ['attachments[0].name']],
    [
      { attachments: [entry({ name: '../../x' }), entry({ name: 'a\0' })] },
      ['attachments[0].name', 'attachments[1].name'],
    ],
    [
      { attachments: [entry({ name: 'a\u202eb', sizeBytes: null }), entry({ sha256: 1, contentType: '' })], to: 1 },
      ['to', 'attachments[0].sizeBytes', 'attachments[1].contentType', 'attachments[1].sha256', 'attachments[0].name'],
    ],
  ];
  for (const [value, fields] of cases) {
    const found = refusalOf(value);
    assert.equal(found.code, 'INVALID_REQUEST', JSON.stringify(value));
    assert.deepEqual(found.fields.sort(), fields.sort(), JSON.stringify(value));
  }
});

test('executables are rejected by extension and by type, after other issues', () => {
  const program = entry({ name: 'setup.EXE' });
  const script = entry({ name: 'page', contentType: 'text/JavaScript; charset=utf-8' });
  assert.deepEqual(refusalOf({ attachments: [entry(), program, script] }), {
    code: 'UNSUPPORTED_FILE_TYPE',
    fields: ['attachments[1]', 'attachments[2]'],
  });
  assert.deepEqual(refusalOf({ attachments: [program, entry({ sizeBytes: -1 })] }), {
    code: 'INVALID_REQUEST',
    fields: ['attachments[1].sizeBytes', 'attachments[0]'],
  });
});

test('two manifests have the same hash if and only if their content is equal', () => {
  const hashOf = (...entries: unknown[]): string => {
    const result = readManifest(ok({ attachments: entries }));
    assert.ok(result.ok);
    return manifestHash(result.value).toString('hex');
  };
  const { name, contentType, sizeBytes, sha256 } = manifestEntry(bytes);
  const other = { ...manifestEntry(bytes), name: 'other.pdf' };
  assert.equal(hashOf(entry()), hashOf({ sha256: sha256.toUpperCase(), sizeBytes, contentType, name }));
  const hashes = [
    hashOf(entry()),
    hashOf(entry(), entry()),
    hashOf(entry(), other),
    hashOf(other, entry()),
    hashOf(entry({ name: 'x' })),
    hashOf(entry({ contentType: 'text/plain' })),
    hashOf(entry({ sizeBytes: 8 })),
    hashOf(entry({ sha256: '0'.repeat(64) })),
  ];
  assert.equal(new Set(hashes).size, hashes.length);
});
