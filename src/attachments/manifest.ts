/**
 * The manifest of POST /attachments: 1 to 10 files of exactly name, contentType, sizeBytes and sha256, and nothing else.
 * Every issue is found and named by its path. Names that are paths or show another name, and files that run when they are
 * opened, are refused before anything is uploaded.
 */
import { createHash } from 'node:crypto';
import { Type } from 'typebox';
import { failure, type Issue, invalid } from '../base/failure.ts';
import { ok, type Result, refuse } from '../base/result.ts';
import { withFurtherIssues } from '../http/rest-issues.ts';
import { closed, compile } from '../http/validate.ts';
import { isContentType, refusedFileType } from '../mail/compose/content-type.ts';
import { fileNameIssue } from '../mail/compose/file-name.ts';
import type { ManifestItem } from './upload-batch.ts';

const MAX_FILES = 10;

export const manifestSchema = closed(
  {
    attachments: Type.Array(
      closed({
        name: Type.String({ minLength: 1, maxLength: 255, description: 'file name, without path; at most 255 bytes' }),
        contentType: Type.String({ minLength: 1, maxLength: 255, description: 'MIME type of the file' }),
        sizeBytes: Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'size of the raw file, not of its Base64 form',
        }),
        sha256: Type.String({
          pattern: '^[0-9a-fA-F]{64}$',
          description: '64 hex characters: SHA-256 of the raw file',
        }),
      }),
      { minItems: 1, maxItems: MAX_FILES },
    ),
  },
  {
    title: 'AttachmentManifest',
    description: 'What is going to be uploaded: details of files only, never content and never fields of an email.',
  },
);

const validate = compile(manifestSchema);

/**
 * The items in their order, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE when nothing else is wrong) with every issue, those that were
 * found `before` in the JSON among them.
 */
export function readManifest(value: unknown, before: readonly Issue[] = []): Result<ManifestItem[]> {
  const formed = validate(value);
  const issues: Issue[] = formed.ok ? [...before] : [...withFurtherIssues(before, formed.failure.details).details];
  const refusedTypes: Issue[] = [];
  for (const [index, item] of listOf(value).entries())
    checkItem(item, `attachments[${index}]`, { issues, refusedTypes });
  if (issues.length > 0 || !formed.ok) return refuse(invalid([...issues, ...refusedTypes]));
  if (refusedTypes.length > 0) return refuse(failure('UNSUPPORTED_FILE_TYPE', { details: refusedTypes }));
  return ok(formed.value.attachments.map((item) => ({ ...item, sha256: Buffer.from(item.sha256, 'hex') })));
}

/** The items as far as there are any: what the schema finds wrong elsewhere must not hide their own issues. */
function listOf(value: unknown): unknown[] {
  const given = (value as { attachments?: unknown } | null | undefined)?.attachments;
  return Array.isArray(given) ? given.slice(0, MAX_FILES) : [];
}

/** What the schema cannot say of one item; a field that is faulty already is left alone. */
function checkItem(item: unknown, field: string, found: { issues: Issue[]; refusedTypes: Issue[] }): void {
  if (typeof item !== 'object' || item === null) return;
  const { name, contentType } = item as Record<string, unknown>;
  const note = (part: string, message: string | undefined): void => {
    const path = `${field}.${part}`;
    if (message === undefined || found.issues.some((issue) => issue.field === path)) return;
    found.issues.push({ field: path, message });
  };
  if (typeof name === 'string') note('name', fileNameIssue(name));
  if (typeof contentType === 'string' && !isContentType(contentType))
    note('contentType', 'must be a content type such as application/pdf');
  if (typeof name !== 'string' || typeof contentType !== 'string') return;
  const refused = refusedFileType({ name, contentType });
  if (refused !== undefined)
    found.refusedTypes.push({ field, message: `${refused}; put it into an archive, or link to it` });
}

/** The same for manifests that say the same, however their JSON is written. */
export function manifestHash(items: readonly ManifestItem[]): Buffer {
  const said = items.map((item) => [item.name, item.contentType, item.sizeBytes, item.sha256.toString('hex')]);
  return createHash('sha256').update(JSON.stringify(said)).digest();
}
