/**
 * Submitted mail with tracking: a copy for each recipient, with its own links and pixel. Mail above the database's limit is held in memory
 * for a few submissions at a time, one copy each, and written back to blob storage copy by copy. Blobs of a message that is refused are
 * removed.
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

/** More links are not realistic in mail to a person; each costs a signature per recipient. */
const MAX_LINKS = 5_000;
/** Number of submissions whose complete mail is in memory at the same time. */
const IN_MEMORY_AT_ONCE = 4;
/** Bytes to copy before yielding to the event loop. */
const BYTES_PER_SLICE = 1_000_000;
const NO_BYTES = Buffer.alloc(0);

interface Tracked {
  accountId: string;
  mode: Mode;
  /** Domain of the sender. */
  fromDomain: string;
  wanted: { opens: boolean; clicks: boolean };
}

export interface CopiesDependencies {
  blobs: Blobs;
  trackingLinks: TrackingLinks;
}

/**
 * Returns the email as one for each of its recipients, or unchanged if nothing in it can be tracked. Its blob is not touched, and is no
 * longer needed if the result does not name it. Rejects with Unavailable if storage fails.
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
      if (content === undefined)
        throw new Unavailable(`blob storage: ${blobKey} is missing although it was just written`);
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
    // No link could be tracked, so all recipients get the same content.
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
  const message = `cannot track clicks in a message with ${count} links; remove clicks, or send at most ${MAX_LINKS} links`;
  return invalid([{ field: 'X-Postrider-Track', message }]);
}
