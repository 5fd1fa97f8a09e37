/**
 * Passwords of SMTP credentials and users: argon2id (RFC 9106) in the PHC string format, computed in the thread pool. At most two are
 * computed at a time, because each takes 19 MiB and 30 ms of a core and the pool also serves disk access. If too many are waiting, further
 * ones are refused instead of queued.
 */
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { Unavailable } from '../base/failure.ts';

/** OWASP's first recommendation for argon2id: 19 MiB, two passes, one lane. */
const MEMORY_KIB = 19_456;
const PASSES = 2;
const LANES = 1;
const SALT_BYTES = 16;
const TAG_BYTES = 32;
const AT_ONCE = 2;
const WAITING_AT_MOST = 500;

const PHC = /^\$argon2id\$v=19\$m=(\d{1,7}),t=(\d{1,3}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/;

const computeArgon2 = promisify(argon2);
const waiting: (() => void)[] = [];
let running = 0;

/** How a computation is queued; `ahead` puts logins of known users before others, which may be guesses. */
interface Waiting {
  ahead?: boolean;
  /** Lower limit on waiting computations than the default. */
  atMost?: number;
}

async function inTurn<T>(
  work: () => Promise<T>,
  { ahead = false, atMost = WAITING_AT_MOST }: Waiting = {},
): Promise<T> {
  if (running >= AT_ONCE) {
    if (waiting.length >= (ahead ? 2 * WAITING_AT_MOST : atMost))
      throw new Unavailable('too many logins are waiting', 'OVERLOADED');
    await new Promise<void>((resolve) => (ahead ? waiting.unshift(resolve) : waiting.push(resolve)));
  } else running += 1;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running -= 1;
  }
}

const unpadded = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64').replace(/=+$/, '');

/** Returns the PHC string of a password, with a random salt. */
export async function hashPassword(password: string): Promise<string> {
  const nonce = randomBytes(SALT_BYTES);
  const tag = await inTurn(() =>
    computeArgon2('argon2id', {
      message: password,
      nonce,
      parallelism: LANES,
      tagLength: TAG_BYTES,
      memory: MEMORY_KIB,
      passes: PASSES,
    }),
  );
  return `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${LANES}$${unpadded(nonce)}$${unpadded(tag)}`;
}

/** Returns whether the password matches the PHC string, in constant time; throws if the string has another format. */
export async function verifyPassword(password: string, phc: string, queue?: Waiting): Promise<boolean> {
  const match = PHC.exec(phc);
  if (!match) throw new Error('a stored password hash has an unknown format');
  const wanted = Buffer.from(match[5]!, 'base64');
  const tag = await inTurn(
    () =>
      computeArgon2('argon2id', {
        message: password,
        nonce: Buffer.from(match[4]!, 'base64'),
        parallelism: Number(match[3]),
        tagLength: wanted.length,
        memory: Number(match[1]),
        passes: Number(match[2]),
      }),
    queue,
  );
  return timingSafeEqual(tag, wanted);
}

/** A hash of no real password, verified if the username is unknown, so that the response takes the same time. */
export const UNKNOWN_USER_PASSWORD = `$argon2id$v=19$m=${MEMORY_KIB},t=${PASSES},p=${LANES}$${'A'.repeat(22)}$${'A'.repeat(43)}`;
