/**
 * What can go wrong with an S3-compatible store, and what it means: whether trying again at once may help, and whether the
 * store itself said no, which waiting does not fix (a wrong bucket, key, region or right). All of it is Unavailable to those
 * who use blobs. Messages hold the store's own code and sentence, and nothing of a request.
 */
import { Unavailable } from '../../base/failure.ts';
import { xmlText } from './s3-xml.ts';

/** Refusals that pass by themselves, beside 408, 429 and 5xx. */
const PASSING =
  /^(RequestTimeout|SlowDown|OperationAborted|InternalError|ServiceUnavailable|BadDigest|IncompleteBody)$/;

export class S3Error extends Unavailable {
  override name = 'S3Error';
  /** Status and code of the store's answer; absent when there was none. */
  readonly status: number | undefined;
  readonly code: string | undefined;
  /** Whether the same call may succeed at once. */
  readonly again: boolean;

  constructor(message: string, facts: { status?: number; code?: string; again: boolean }) {
    super(`blob storage: S3 ${message}`);
    this.status = facts.status;
    this.code = facts.code;
    this.again = facts.again;
  }

  /** The store answered, and its answer will stay the same until somebody changes a setting or a right. */
  get refused(): boolean {
    return this.status !== undefined && this.status < 500 && !this.again;
  }
}

/** An answer that is no success. `body` is its beginning. */
export function errorFromAnswer(call: string, answer: { status: number; body: string; region?: string }): S3Error {
  const { status, body, region } = answer;
  const code = xmlText(body, 'Code');
  const said = xmlText(body, 'Message')?.replace(/\s+/g, ' ').slice(0, 200);
  const words = [String(status), code, said].filter((one) => one !== undefined && one !== '').join(' ');
  const elsewhere = region === undefined ? '' : ` (the bucket is in region ${region})`;
  return new S3Error(`${call} was answered with ${words}${elsewhere}`, {
    status,
    ...(code === undefined ? {} : { code }),
    again: status >= 500 || status === 429 || status === 408 || PASSING.test(code ?? ''),
  });
}

/** No answer, or not all of one. */
export function unansweredError(call: string, error: unknown): S3Error {
  if (error instanceof S3Error) return error;
  const { message, code, cause } = error as Error & { code?: string };
  const reason = (cause as Error | undefined)?.message ?? message;
  return new S3Error(`${call} got no answer: ${reason || code || 'the connection was lost'}`, { again: true });
}
