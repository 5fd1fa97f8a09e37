/**
 * Serves static files: one route per file, from a list known at startup, so that no request path ever reaches a file system. A file is read
 * and compressed on its first request and then kept in memory. Its ETag identifies the content, so browsers with the current version get
 * 304.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { acceptedEncodings } from './encoding.ts';
import { type AnswerHeaders, type ContentAnswer, defineRoute, type RouteDefinition } from './route.ts';

export interface StaticFile {
  /** Path of its URL. */
  path: string;
  contentType: string;
  /** Called once, on the first request. */
  read: () => string | Buffer | Promise<string | Buffer>;
  /** Returns the file compressed with brotli, if it was compressed in advance. */
  readBrotli?: () => Promise<Buffer>;
  /** For example `public, max-age=3600`, or `immutable` if the name changes with the content. By default browsers revalidate each time. */
  cacheControl?: string;
  /** Additional response headers, such as a Content-Security-Policy. */
  headers?: AnswerHeaders;
}

type Encoding = 'br' | 'gzip' | 'identity';

interface Loaded {
  etag: string;
  contents: Partial<Record<Encoding, Buffer>>;
}

const COMPRESSIBLE = /^(?:text\/|application\/(?:javascript|json)|image\/svg)/;
/** Nearly the size of level 11 at a hundredth of its time: 60 ms for the 1.7 MB of the documentation's script. */
const BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } };

async function load(file: StaticFile): Promise<Loaded> {
  const bytes = Buffer.from(await file.read());
  const etag = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  if (!COMPRESSIBLE.test(file.contentType)) return { etag, contents: { identity: bytes } };
  const compressed = file.readBrotli?.() ?? promisify(brotliCompress)(bytes, BROTLI);
  const [br, zipped] = await Promise.all([compressed, promisify(gzip)(bytes)]);
  return { etag, contents: { identity: bytes, br, gzip: zipped } };
}

function answerOf(file: StaticFile, { etag, contents }: Loaded, requested: IncomingHttpHeaders): ContentAnswer {
  const accepted = acceptedEncodings(requested['accept-encoding']?.toString());
  const encoding = (['br', 'gzip'] as const).find((one) => one in contents && accepted.includes(one)) ?? 'identity';
  const tag = `"${etag}-${encoding}"`;
  const headers = {
    ...file.headers,
    'Cache-Control': file.cacheControl ?? 'no-cache',
    ETag: tag,
    Vary: 'Accept-Encoding',
    ...(encoding === 'identity' ? {} : { 'Content-Encoding': encoding }),
  };
  const known = (requested['if-none-match'] ?? '').split(',').map((one) => one.trim().replace(/^W\//, ''));
  const isKnown = known.includes(tag) || known.includes('*');
  const { contentType } = file;
  if (isKnown) return { ok: true, status: 304, contentType, content: '', headers };
  return { ok: true, contentType, content: contents[encoding]!, headers };
}

/** Returns GET and HEAD routes for each file, without authentication. */
export function staticRoutes<C>(files: readonly StaticFile[]): RouteDefinition<C>[] {
  return files.map((file) => {
    let loading: Promise<Loaded> | undefined;
    return defineRoute<C>({
      method: 'GET',
      path: file.path,
      summary: 'Download a static file',
      tag: 'service',
      access: { auth: 'none' },
      hidden: true,
      ownQuery: true,
      body: { type: 'raw', maxBytes: 0 },
      response: { status: 200, contentType: file.contentType },
      async handle({ headers }) {
        loading ??= load(file).catch((error: unknown) => {
          loading = undefined;
          throw error;
        });
        return answerOf(file, await loading, headers);
      },
    });
  });
}
