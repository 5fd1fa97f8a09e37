/**
 * Submitted mail that asks for tracking: a copy for each recipient, whose links and picture are its own. Mail beyond the
 * database's size is held in memory for few submissions at a time, one copy each, and goes back to the blob storage copy by
 * copy; what was stored for a mail that is refused is removed.
 */
import { setImmediate } from 'node:timers/promises';
import { type failure, invalid, ok, type Result, refuse, Unavailable } from '../base/failure.ts';
import type { Mode } from '../base/mode.ts';
import { createSemaphore } from '../base/semaphore.ts';
import type { TrackingLinks } from '../engagement/engagement.ts';
import { readTrackableMail, type TrackableMail } from '../mail/mime/track-submitted.ts';
import type { Blobs } from '../storage/blobs/blobs.ts';
import { dropBlobs } from '../storage/blobs/remove.ts';
import type { ComposedEmail } from './accept-emails.ts';

/** More links are no mail to a person; each costs a signature for each recipient. */
const MAX_LINKS = 5_000;
/** Submissions whose mail is whole in memory at the same moment. */
const IN_MEMORY_AT_ONCE = 4;
/** Copied before other work gets the event loop. */
const BYTES_PER_SLICE = 1_000_000;
const NO_BYTES = Buffer.alloc(0);

interface Tracked {
  accountId: string;
  mode: Mode;
  /** Of the sender. */
  fromDomain: string;
  wanted: { opens: boolean; clicks: boolean };
}

export interface CopiesDependencies {
  blobs: Blobs;
  trackingLinks: TrackingLinks;
}

/**
 * The email as one for each of its recipients; as it is where nothing in it can be tracked. Its blob is not touched, and is
 * no longer needed when the answer does not name it. Rejects with Unavailable when storage fails.
 */
type TrackCopies = (email: ComposedEmail, tracked: Tracked) => Promise<Result<ComposedEmail[]>>;

export function createTrackCopies(dependencies: CopiesDependencies): TrackCopies {
  const { blobs } = dependencies;
  const inMemory = createSemaphore(IN_MEMORY_AT_ONCE);

  return async (email, tracked) => {
    const { blobKey } = email;
    if (blobKey === undefined) return copiesOf(email, email.content, tracked, dependencies);
    return inMemory.run(async () => {
      const content = await blobs.get(blobKey);
      if (content === undefined) throw new Unavailable(`blob storage: ${blobKey} is gone though it was just written`);
      return copiesOf(email, content, tracked, dependencies);
    });
  };
}

async function copiesOf(
  email: ComposedEmail,
  content: Buffer,
  tracked: Tracked,
  dependencies: CopiesDependencies,
): Promise<Result<ComposedEmail[]>> {
  const mail = readTrackableMail(content, { links: tracked.wanted.clicks });
  if (mail === undefined) return ok([email]);
  if (mail.links > MAX_LINKS) return refuse(tooManyLinks(mail.links));
  const stored: string[] = [];
  try {
    const copies = await makeCopies(email, { content, mail, tracked, stored }, dependencies);
    if (!copies.ok) dropBlobs(dependencies.blobs, stored);
    return copies;
  } catch (error) {
    dropBlobs(dependencies.blobs, stored);
    throw error;
  }
}

interface CopyWork {
  content: Buffer;
  mail: TrackableMail;
  tracked: Tracked;
  /** Blobs that were written. */
  stored: string[];
}

async function makeCopies(
  email: ComposedEmail,
  { content, mail, tracked, stored }: CopyWork,
  { blobs, trackingLinks }: CopiesDependencies,
): Promise<Result<ComposedEmail[]>> {
  const { accountId, mode, fromDomain, wanted } = tracked;
  const emails: ComposedEmail[] = [];
  let sinceYield = 0;
  for (const recipient of email.recipients) {
    const { messageId } = recipient;
    const copy = mail.copy(trackingLinks.trackingOf({ accountId, mode, messageId }, wanted, fromDomain));
    // The same for every recipient: no link was of a kind that is tracked.
    if (copy === content) return ok([email]);
    const own = { ...email, recipients: [recipient], sizeBytes: copy.length };
    if (email.blobKey === undefined) emails.push({ ...own, content: copy });
    else {
      const blobKey = await blobs.put(copy);
      stored.push(blobKey);
      emails.push({ ...own, content: NO_BYTES, blobKey });
    }
    sinceYield += copy.length;
    if (sinceYield < BYTES_PER_SLICE) continue;
    sinceYield = 0;
    await setImmediate();
  }
  return ok(emails);
}

function tooManyLinks(count: number): ReturnType<typeof failure> {
  const message = `cannot track clicks in messages with more than ${MAX_LINKS} links (this one has ${count}); remove clicks`;
  return invalid([{ field: 'X-Postrider-Track', message }]);
}
