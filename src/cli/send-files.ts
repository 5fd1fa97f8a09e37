/** Local files on their way into an email: what they are, inline as Base64, or as a manifest with their digests. */
import { createHash } from 'node:crypto';
import { createReadStream, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { CommandError } from './command.ts';

const CONTENT_TYPES: Record<string, string> = {
  '.csv': 'text/csv',
  '.gif': 'image/gif',
  '.html': 'text/html',
  '.ics': 'text/calendar',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.json': 'application/json',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
  '.xml': 'application/xml',
  '.zip': 'application/zip',
};

export interface LocalFile {
  path: string;
  name: string;
  contentType: string;
  sizeBytes: number;
}

export interface ManifestItem {
  name: string;
  contentType: string;
  sizeBytes: number;
  sha256: string;
}

/** What the file is; NO_FILE when it is not one that can be read. */
export function localFile(file: string): LocalFile {
  let stats: ReturnType<typeof statSync>;
  try {
    stats = statSync(file);
  } catch {
    throw new CommandError('NO_FILE', `${file} cannot be read`);
  }
  if (!stats.isFile()) throw new CommandError('NO_FILE', `${file} is not a file`);
  const contentType = CONTENT_TYPES[path.extname(file).toLowerCase()] ?? 'application/octet-stream';
  return { path: file, name: path.basename(file), contentType, sizeBytes: stats.size };
}

/** An item of `attachments` in POST /send. */
export function inlineAttachment(file: LocalFile): { name: string; contentType: string; content: string } {
  const { name, contentType } = file;
  return { name, contentType, content: readFileSync(file.path).toString('base64') };
}

/** An item of the manifest of POST /attachments; reads the file. */
export async function manifestItem(file: LocalFile, onBytes: (count: number) => void): Promise<ManifestItem> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of createReadStream(file.path)) {
    const bytes = chunk as Buffer;
    hash.update(bytes);
    sizeBytes += bytes.length;
    onBytes(bytes.length);
  }
  const { name, contentType } = file;
  return { name, contentType, sizeBytes, sha256: hash.digest('hex') };
}
