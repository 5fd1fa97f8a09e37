/** Planted bugs in the storage of rows and content: missing syncs, replies before them, ignored failures. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_STORAGE: Readonly<Record<string, Planted>> = {
  'responses are sent before the commit': {
    file: 'storage/sqlite/groups.ts',
    find: '    tx.begin();\n',
    replace: '    if (tx.raw.isTransaction) tx.commit();\n    tx.begin();\n',
    also: {
      file: 'storage/sqlite/groups.ts',
      find: '    tx.commit();\n    return { ok: true, values };',
      replace:
        '    setTimeout(() => { if (tx.raw.isTransaction) tx.commit(); }, 200);\n    return { ok: true, values };',
    },
    finds: /^lost: |SUBMISSION_NOT_FOUND/,
  },
  'the database is not synced': {
    file: 'storage/sqlite/connection.ts',
    find: "raw.exec('PRAGMA synchronous=FULL');",
    replace: "raw.exec('PRAGMA synchronous=NORMAL');",
    also: {
      file: 'storage/sqlite/connection.ts',
      find: "assertPragma(raw, 'synchronous', 2);",
      replace: '',
    },
    finds: /^lost: |in no log|no such message/,
  },
  'content is not synced': {
    file: 'storage/blobs/disk.ts',
    find: '        await syncs.run(() => file.datasync());\n      } finally {\n        await file.close();\n      }\n      await parentSynced;',
    replace: '      } finally {\n        await file.close();\n      }\n      await parentSynced;',
    finds: /is named by a row, and gone|is not what was accepted|content of the message is missing/,
  },
  'the directory of the content is not synced': {
    file: 'storage/blobs/disk.ts',
    find: '      await syncFolder(syncs, path.join(folder, shard)).catch(throwUnavailable);\n',
    replace: '',
    finds: /is named by a row, and gone|content of the message is missing/,
  },
  'a write that failed on a full disk counts as written': {
    file: 'storage/blobs/disk.ts',
    find: '        await file.writeFile(content).catch(throwUnavailable);\n',
    replace: '        await file.writeFile(content).catch(() => undefined);\n',
    finds: /is not what was accepted/,
  },
  'a failed upload to S3 counts as stored': {
    file: 'storage/blobs/s3-client.ts',
    find: 'if (!(error instanceof S3Error) || !error.isRetryable || over) throw error;',
    replace:
      'if (over) return undefined;\n          if (!(error instanceof S3Error) || !error.isRetryable) throw error;',
    finds: /is named by a row, and gone|content of the message is missing/,
  },
  'an error in the body of a 200 response of S3 is ignored': {
    file: 'storage/blobs/s3-multipart.ts',
    find: 'if (!text.includes(`<${name}Result`))',
    replace: 'if (text.length > 99_999)',
    finds: /is named by a row, and gone|content of the message is missing/,
  },
  'the remains of a failed write are not removed': {
    file: 'storage/blobs/disk.ts',
    find: '      await unlink(temporary).catch(() => undefined);\n      throw error;\n    }\n  };',
    replace: '      throw error;\n    }\n  };',
    finds: /of a write that failed is still there/,
  },
  'content is not verified against its hash': {
    file: 'storage/blobs/blobs.ts',
    find: "toString('base64url') !== expected) throw new BlobDamaged(key);\n  return content;",
    replace: "toString('base64url') === '') throw new BlobDamaged(key);\n  return content;",
    finds: /of its \d+ characters|came with another file/,
  },
};
