/**
 * Attachments that come inside the request. Base64 is read strictly, with or without line breaks; names and types that could break out of a header,
 * out of a directory, or into a program are refused.
 */
import type { Issue } from '../base/failure.ts';
import type { FileToCompose } from '../mail/compose/compose.ts';
import { isContentType, refusedFileType } from '../mail/compose/content-type.ts';
import { fileNameIssue } from '../mail/compose/file-name.ts';
import type { SendBody } from './request.ts';

export interface FileIssues {
  /** INVALID_REQUEST. */
  issues: Issue[];
  /** UNSUPPORTED_FILE_TYPE. */
  refusedTypes: Issue[];
}

type GivenFile = NonNullable<SendBody['attachments']>[number];

const MAX_ISSUES = 100;

/**
 * Reads `attachments`; what is faulty is left out of the result and reported. Parts that are not there are left alone: who
 * asks has found them at fault already.
 */
export function readFiles(
  given: readonly (Partial<GivenFile> | undefined)[] | undefined,
  found: FileIssues,
): FileToCompose[] {
  if (given === undefined) return [];
  const files: FileToCompose[] = [];
  const contentIds = new Set<string>();
  for (let index = 0; index < given.length && found.issues.length < MAX_ISSUES; index += 1) {
    const file = given[index];
    if (file === undefined) continue;
    const { name, contentType, contentId, content: base64 } = file;
    const field = `attachments[${index}]`;
    const before = found.issues.length;
    const note = (part: string, message: string | undefined): void => {
      if (message !== undefined) found.issues.push({ field: `${field}.${part}`, message });
    };
    if (name !== undefined) note('name', fileNameIssue(name));
    if (contentType !== undefined && !isContentType(contentType))
      note('contentType', 'must be a content type such as application/pdf');
    if (contentId !== undefined) {
      note(
        'contentId',
        contentIds.has(contentId) ? 'is given twice; each file needs its own' : contentIdIssue(contentId),
      );
      contentIds.add(contentId);
    }
    const content = base64 === undefined ? undefined : readBase64(base64);
    if (base64 !== undefined && content === undefined)
      note('content', 'must be Base64 (RFC 4648 section 4) with padding; nothing but line breaks may stand in it');
    if (name === undefined || contentType === undefined) continue;
    const refused = refusedFileType({ name, contentType });
    if (refused !== undefined) {
      found.refusedTypes.push({ field, message: `${refused}; put it into an archive, or link to it` });
    } else if (content !== undefined && found.issues.length === before)
      files.push({ name, contentType, content, ...(contentId !== undefined && { contentId }) });
  }
  return files;
}

function contentIdIssue(contentId: string): string | undefined {
  return /^[\x21-\x7e]+$/.test(contentId) && !/[<>"]/.test(contentId)
    ? undefined
    : 'must be visible ASCII characters without spaces, quotes and angle brackets';
}

/** The bytes, or undefined when the text is not Base64 to the letter; the line breaks of MIME (RFC 2045 section 6.8) are left out. */
function readBase64(given: string): Buffer | undefined {
  const text = /[\r\n]/.test(given) ? given.replaceAll(/[\r\n]+/g, '') : given;
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  // The decoder passes over what it does not know, which shows in the length; the URL alphabet it would take for Base64.
  if (text.includes('-') || text.includes('_')) return undefined;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === (text.length / 4) * 3 - padding ? bytes : undefined;
}
