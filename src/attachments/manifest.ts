/**
 * The manifest of POST /attachments: 1 to 10 files with exactly name, contentType, sizeBytes, and sha256. All issues are reported by path.
 * Names that are paths or are deceptive, and executable files, are refused before anything is uploaded.
 */
import { createHash } from 'node:crypto';
import { failure, type Issue, invalid, ok, type Result, refuse } from '../base/failure.ts';
import { compileBody } from '../http/absent-fields.ts';
import { checkBody } from '../http/body.ts';
import { Type } from '../http/schema-type.ts';
import type { ParsedJson } from '../http/strict-json.ts';
import { closed } from '../http/validate.ts';
import { fileNameIssue, isContentType, refusedFileType } from '../mail/compose/content-type.ts';

import type { ManifestItem } from './store.ts';

const MAX_FILES = 10;

export const manifestSchema = closed(
  {
    attachments: Type.Array(
      closed({
        name: Type.String({ minLength: 1, maxLength: 255, description: 'File name, without path; at most 255 bytes.' }),
        contentType: Type.String({ minLength: 1, maxLength: 255, description: 'MIME type of the file.' }),
        sizeBytes: Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'Size of the raw file, not of its Base64 form.',
        }),
        sha256: Type.String({
          pattern: '^[0-9a-fA-F]{64}$',
          phrase: 'must be 64 hex characters',
          description: 'SHA-256 of the raw file: 64 hex characters.',
        }),
      }),
      { minItems: 1, maxItems: MAX_FILES },
    ),
  },
  {
    title: 'AttachmentManifest',
    description: 'The files to upload. Contains only their properties, no content and no fields of an email.',
  },
);

const validate = compileBody(manifestSchema);

/**
 * Returns the items in order, or INVALID_REQUEST (UNSUPPORTED_FILE_TYPE if there are no other issues) with all issues, including those
 * found `elsewhere` (query, headers).
 */
export function readManifest(json: ParsedJson, elsewhere?: readonly Issue[]): Result<ManifestItem[]> {
  const furtherIssues = ({ attachments = [] }: { attachments?: GivenItem[] }): Issue[] => {
    const { issues, refusedTypes } = checkItems(attachments);
    return [...issues, ...refusedTypes];
  };
  const formed = checkBody(json, { validate, furtherIssues }, elsewhere);
  if (!formed.ok) return formed;
  const { attachments } = formed.value;
  const { issues, refusedTypes } = checkItems(attachments);
  if (issues.length > 0) return refuse(invalid([...issues, ...refusedTypes]));
  if (refusedTypes.length > 0) return refuse(failure('UNSUPPORTED_FILE_TYPE', { details: refusedTypes }));
  return ok(attachments.map((item) => ({ ...item, sha256: Buffer.from(item.sha256, 'hex') })));
}

type GivenItem = { name?: string; contentType?: string } | undefined;

/** Checks what the schema cannot express. Parts that do not match the schema are absent. */
function checkItems(items: readonly GivenItem[]): { issues: Issue[]; refusedTypes: Issue[] } {
  const issues: Issue[] = [];
  const refusedTypes: Issue[] = [];
  for (const [index, { name, contentType } = {}] of items.slice(0, MAX_FILES).entries()) {
    const field = `attachments[${index}]`;
    const nameIssue = name === undefined ? undefined : fileNameIssue(name);
    if (nameIssue !== undefined) issues.push({ field: `${field}.name`, message: nameIssue });
    if (contentType !== undefined && !isContentType(contentType))
      issues.push({ field: `${field}.contentType`, message: 'must be a content type such as application/pdf' });
    if (name === undefined || contentType === undefined) continue;
    const refused = refusedFileType({ name, contentType });
    if (refused !== undefined)
      refusedTypes.push({ field, message: `${refused}; send it in an archive, or link to it` });
  }
  return { issues, refusedTypes };
}

/** Returns a hash that is equal for manifests with the same content, regardless of their JSON formatting. */
export function manifestHash(items: readonly ManifestItem[]): Buffer {
  const rows = items.map((item) => [item.name, item.contentType, item.sizeBytes, item.sha256.toString('hex')]);
  return createHash('sha256').update(JSON.stringify(rows)).digest();
}
