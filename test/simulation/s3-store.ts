/**
 * A simulated S3-compatible store on another machine: objects and multipart uploads, with responses for the product's own client. It fails
 * as the seed decides: errors, silence, responses lost after the work was done, a completion that fails after its 200, an outage. It keeps
 * everything it acknowledged. Signatures are not checked.
 */
import { createHash } from 'node:crypto';
import { here } from './globals.ts';
import type { Network, SimSocket } from './network.ts';
import type { Random } from './random.ts';

const HOST = 's3.example';
const PORT = 9_000;
const BUCKET = 'box';
const PREFIX = 'mail';

/** Its address. */
export const STORE = {
  location: { endpoint: `http://${HOST}:${PORT}`, region: 'eu-1', bucket: BUCKET, prefix: PREFIX, style: 'path' },
  credentials: { accessKeyId: 'AKIASIMULATED', secretAccessKey: 'simulated' },
} as const;

export interface StoreFaults {
  /** Shares of requests: 500 or SlowDown without effect, no response, and a response lost after the effect. */
  errors: number;
  silences: number;
  lost: number;
  /** Completions with an error after the status 200. */
  lateErrors: number;
  /** It is unavailable then, virtual ms. */
  outage: { fromMs: number; untilMs: number } | undefined;
}

export const NO_STORE_FAULTS: StoreFaults = { errors: 0, silences: 0, lost: 0, lateErrors: 0, outage: undefined };

export function drawStoreFaults(random: Random): StoreFaults {
  const share = (most: number): number => (random.chance(0.4) ? 0 : random.between(0, most));
  const fromMs = random.between(0, random.chance(0.5) ? 3_000 : 600_000);
  const outage = { fromMs, untilMs: fromMs + random.between(1_000, 1_800_000) };
  return {
    errors: share(0.25),
    silences: share(0.05),
    lost: share(0.2),
    lateErrors: share(0.5),
    outage: random.chance(0.3) ? outage : undefined,
  };
}

interface Stored {
  bytes: Buffer;
  headers: Record<string, string>;
  writtenAtMs: number;
}

interface Upload extends Stored {
  name: string;
  parts: Map<number, Buffer>;
}

interface Request {
  method: string;
  /** Object name within the bucket; empty for the bucket itself. */
  name: string;
  query: URLSearchParams;
  headers: Record<string, string>;
  body: Buffer;
}

interface Answer {
  status: number;
  headers?: Record<string, string>;
  body?: Buffer | string;
}

const PAGE = 3;
/** The limit of S3. */
const MOST_SKEW_MS = 900_000;
const failed = (status: number, code: string): Answer => ({
  status,
  body: `<Error><Code>${code}</Code><Message>Because.</Message></Error>`,
});
const sha256 = (bytes: Buffer): Buffer => createHash('sha256').update(bytes).digest();
const iso = (ms: number): string => new Date(ms).toISOString();
const shortened = (name: string): string => name.slice(PREFIX.length + 1);

export class ObjectStore {
  readonly #objects = new Map<string, Stored>();
  readonly #uploads = new Map<string, Upload>();
  readonly #network: Network;
  readonly #random: Random;
  readonly #faults: StoreFaults;
  readonly #count: (what: string) => void;
  #nextUpload = 1;

  constructor(
    network: Network,
    { random, faults, count }: { random: Random; faults: StoreFaults; count(what: string): void },
  ) {
    this.#network = network;
    this.#random = random;
    this.#faults = faults;
    this.#count = count;
    network.listen(`${HOST}:${PORT}`, (socket) => this.#session(socket));
  }

  /** Returns the stored objects by key. */
  blobs(): Map<string, Buffer> {
    return new Map([...this.#objects].map(([name, { bytes }]) => [shortened(name), bytes]));
  }

  /** Its clock is independent of the nodes' clocks. */
  get #nowMs(): number {
    return here().startMs + this.#network.timeline.nowMs;
  }

  #session(socket: SimSocket): void {
    let pieces: Buffer[] = [];
    socket.on('error', () => undefined);
    socket.on('end', () => socket.end());
    socket.on('data', (chunk: Buffer) => {
      pieces.push(chunk);
      const read = readRequest(Buffer.concat(pieces));
      if (read === undefined) return;
      pieces = [];
      this.#serve(socket, read);
    });
  }

  #serve(socket: SimSocket, request: Request): void {
    const { errors, silences, lost, outage } = this.#faults;
    const { timeline } = this.#network;
    const draw = this.#random.next();
    if (outage && timeline.nowMs >= outage.fromMs && timeline.nowMs < outage.untilMs) {
      this.#count('request to an unavailable object store');
      socket.destroy(new Error('away'));
    } else if (draw < errors) {
      this.#count('object store error');
      const [status, code] = this.#random.pick([[500, 'InternalError'] as const, [503, 'SlowDown'] as const]);
      this.#say(socket, request, failed(status, code));
    } else if (draw < errors + silences) this.#count('object store timeout');
    else {
      const answer = this.#answerTo(request);
      const isLost = draw < errors + silences + lost;
      if (isLost) this.#count(`the answer of a store lost after ${request.method}`);
      timeline.after(this.#random.between(1, 200), 'store answers', () => {
        if (isLost) socket.destroy(new Error('cut'));
        else this.#say(socket, request, answer);
      });
    }
  }

  #say(socket: SimSocket, { method }: Request, { status, headers = {}, body = '' }: Answer): void {
    if (!socket.writable) return;
    const bytes = Buffer.from(body);
    const all = { date: new Date(this.#nowMs).toUTCString(), 'content-length': bytes.length, ...headers };
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`HTTP/1.1 ${status} Said\r\n${lines.join('')}\r\n`);
    if (method !== 'HEAD' && bytes.length > 0) socket.write(bytes);
  }

  #answerTo(request: Request): Answer {
    const { method, name, query, headers, body } = request;
    const isSigned = headers.authorization !== undefined || query.has('X-Amz-Signature');
    if (!isSigned) return failed(403, 'AccessDenied');
    const skewMs = Math.abs(readDate(headers['x-amz-date']) - this.#nowMs);
    if (skewMs > MOST_SKEW_MS) return failed(403, 'RequestTimeTooSkewed');
    const claimed = [
      ['x-amz-checksum-sha256', 'base64'],
      ['x-amz-content-sha256', 'hex'],
    ] as const;
    const isOther = ([header, encoding]: (typeof claimed)[number]): boolean => {
      const said = headers[header];
      return said !== undefined && said !== 'UNSIGNED-PAYLOAD' && said !== sha256(body).toString(encoding);
    };
    if (claimed.some(isOther)) return failed(400, 'BadDigest');
    if (name === '') return this.#ofBucket(request);
    if (query.has('uploads')) return this.#begin(request);
    if (query.has('uploadId')) return this.#ofUpload(request);
    const stored = this.#objects.get(name);
    if (method === 'PUT') {
      this.#objects.set(name, { bytes: body, headers: {}, writtenAtMs: this.#nowMs });
      return { status: 200 };
    }
    if (method === 'DELETE') {
      this.#objects.delete(name);
      return { status: 204 };
    }
    if (stored === undefined) return failed(404, 'NoSuchKey');
    const length = { ...stored.headers, 'content-length': String(stored.bytes.length) };
    return { status: 200, headers: length, body: method === 'GET' ? stored.bytes : '' };
  }

  #ofBucket({ method, query }: Request): Answer {
    if (method === 'HEAD') return { status: 200 };
    const prefix = query.get('prefix') ?? '';
    if (query.has('uploads')) {
      const rows = [...this.#uploads].map(
        ([id, { name, writtenAtMs }]) =>
          `<Upload><Key>${name}</Key><UploadId>${id}</UploadId><Initiated>${iso(writtenAtMs)}</Initiated></Upload>`,
      );
      return { status: 200, body: `<ListMultipartUploadsResult>${rows.join('')}</ListMultipartUploadsResult>` };
    }
    const after = query.get('continuation-token') ?? '';
    const names = [...this.#objects.keys()].filter((one) => one.startsWith(prefix) && one > after).sort();
    const rows = names.slice(0, PAGE).map((one) => {
      const { writtenAtMs } = this.#objects.get(one)!;
      return `<Contents><Key>${one}</Key><LastModified>${iso(writtenAtMs)}</LastModified></Contents>`;
    });
    const more = names.length > PAGE ? `<NextContinuationToken>${names[PAGE - 1]}</NextContinuationToken>` : '';
    return { status: 200, body: `<ListBucketResult>${rows.join('')}${more}</ListBucketResult>` };
  }

  #begin({ name, headers }: Request): Answer {
    const id = `upload-${this.#nextUpload++}`;
    const kept = { 'x-amz-meta-write': headers['x-amz-meta-write'] ?? '' };
    this.#uploads.set(id, {
      name,
      headers: kept,
      bytes: Buffer.alloc(0),
      writtenAtMs: this.#nowMs,
      parts: new Map(),
    });
    return { status: 200, body: `<Begun><UploadId>${id}</UploadId></Begun>` };
  }

  #ofUpload({ method, query, body }: Request): Answer {
    const id = query.get('uploadId')!;
    const upload = this.#uploads.get(id);
    if (upload === undefined) return failed(404, 'NoSuchUpload');
    if (method === 'DELETE') {
      this.#uploads.delete(id);
      return { status: 204 };
    }
    if (method === 'PUT') {
      upload.parts.set(Number(query.get('partNumber')), body);
      return { status: 200, headers: { etag: `"${sha256(body).toString('hex').slice(0, 32)}"` } };
    }
    if (this.#random.chance(this.#faults.lateErrors)) {
      this.#count('S3 completion with an error in its 200');
      return { ...failed(200, 'InternalError') };
    }
    const numbers = [...body.toString().matchAll(/<PartNumber>(\d+)</g)].map(([, number]) => Number(number));
    const bytes = Buffer.concat(numbers.map((number) => upload.parts.get(number)!));
    this.#count('multipart upload');
    this.#objects.set(upload.name, { ...upload, bytes, writtenAtMs: this.#nowMs });
    this.#uploads.delete(id);
    return { status: 200, body: '<CompleteMultipartUploadResult></CompleteMultipartUploadResult>' };
  }
}

/** Parses, for example, 20261123T090000Z; returns now for presigned requests. */
function readDate(text: string | undefined): number {
  const [, ...parts] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(text ?? '') ?? [];
  const [year, month, day, hour, minute, second] = parts.map(Number) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return parts.length === 0 ? Number.NaN : Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Returns a request that has arrived completely. */
function readRequest(bytes: Buffer): Request | undefined {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return undefined;
  const [first = '', ...lines] = bytes.toString('latin1', 0, end).split('\r\n');
  const pairs = lines.map((line) => line.split(/: ?(.*)/, 2) as [string, string]);
  const headers = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  const length = Number(headers['content-length'] ?? 0);
  if (bytes.length < end + 4 + length) return undefined;
  const [method = '', target = ''] = first.split(' ');
  const { pathname, searchParams: query } = new URL(target, STORE.location.endpoint);
  const name = decodeURIComponent(pathname.slice(BUCKET.length + 2));
  return { method, name, query, headers, body: bytes.subarray(end + 4, end + 4 + length) };
}
