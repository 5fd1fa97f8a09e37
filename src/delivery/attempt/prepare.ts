/**
 * Prepares the bytes that are sent for one email: Postrider's Received field, the DKIM signatures, and the content as accepted, in this
 * order. The signatures are below Received, so they cover exactly the content and nothing that is added in transit. The content is read
 * once for all recipients in memory. It is signed once for all recipients that have no individual header field (feedback-address.ts).
 *
 * If the account can no longer use the sender domain, Postrider itself refuses the message and it bounces. It is never sent unsigned.
 *
 * Content that is missing or differs from what was accepted is never sent (blobs are compared with their digest). The attempt fails with an
 * internal error, which is logged, and the message bounces when its lifetime ends.
 *
 * If a peer lacks 8BITMIME or SMTPUTF8 (RFC 6152, RFC 6531) and the message needs it, the message is re-encoded and signed again, because a
 * signature covers the exact bytes. This is done once for all recipients whose servers lack the same extension. If a message cannot be
 * re-encoded without damage, Postrider refuses it permanently, as if the peer did: 554 5.6.3 or 553 5.6.7. Streamed content was composed by
 * Postrider and is 7-bit except for its header, so only its header is replaced.
 */

import { isAscii } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Log } from '../../base/log.ts';
import { domainToAscii, parseAddress } from '../../mail/address.ts';
import {
  type DkimKey,
  type DkimSigners,
  type PreparedDkim,
  prepareDkim,
  prepareDkimHeader,
  signPrepared,
  withFieldsOnTop,
} from '../../mail/compose/dkim-sign.ts';
import { formatDate } from '../../mail/compose/header.ts';
import type { Base64Lines } from '../../mail/compose/transfer-encoding.ts';
import { BodyHash } from '../../mail/dkim-canonicalization.ts';
import { endOfHeader, headerFields } from '../../mail/mime/header-fields.ts';
import { type SevenBitNeeds, toSevenBit } from '../../mail/mime/seven-bit.ts';
import { type DeliveryJob, encodedFilesBytes } from '../../messages/messages.ts';
import type { LocalRefusal, SendResult, SmtpMessage, SmtpSession } from '../../net/smtp-client.ts';
import { BlobDamaged, type Blobs } from '../../storage/blobs/blobs.ts';
import { isAsAccepted } from '../../storage/blobs/stored-content.ts';
import { type Evidence, SENDER_UNVERIFIED } from '../outcome/outcome.ts';
import { type BodyHashes, openLarge, prepareLargeDkim, type StreamedContent } from './large.ts';

export interface SigningKeys {
  /** The signing domain, in A-labels. */
  domain: string;
  keys: readonly DkimKey[];
  /** A name in the sender's domain that points to Postrider, for the return path. */
  returnPath?: string | undefined;
}

/** Returns the keys with which the account signs mail from this domain. If undefined, the message is unsigned; `unverified` stops it. */
export type KeysFor = (accountId: string, fromDomain: string) => Promise<SigningKeys | 'unverified' | undefined>;

export interface PrepareDeps {
  blobs: Blobs;
  keysFor: KeysFor;
  log: Log;
  bodyHashes: BodyHashes;
}

/** Returns the signatures over `fields` and the content, followed by `fields`. The content comes directly below. */
type Sign = (fields: string) => Promise<string>;

export type PreparedEmail =
  | {
      ok: true;
      content: Buffer | StreamedContent;
      sign: Sign;
      /** A name in the sender's domain that points to Postrider. */
      ownReturnPath?: string | undefined;
      /** The same name, if complaints may be sent there (see feedback-address.ts). */
      feedbackDomain?: string | undefined;
      /** Returns the signing function for other bytes of the message, re-encoded for a peer. For streamed content, pass another header. */
      signerOf(content: Buffer): Sign;
    }
  | { ok: false; evidence: Omit<Evidence, 'relay'> };

/** More Received fields than this indicate a mail loop (RFC 5321 §6.3). */
const MAX_RECEIVED = 100;
const SLICE_BYTES = 512_000;

function unsendable(message: string): PreparedEmail {
  return { ok: false, evidence: { stage: 'data', cause: 'ECONTENT', message } };
}

/** Returns the domain of From, which was checked when the message was accepted. */
function fromDomain(job: DeliveryJob): string {
  const from = parseAddress(job.headerFrom);
  return from.ok ? from.value.domain : job.headerFrom.slice(job.headerFrom.lastIndexOf('@') + 1).replace(/>\s*$/, '');
}

function unverified(job: DeliveryJob): PreparedEmail {
  const text = `the domain ${fromDomain(job)} is no longer verified for the sending account`;
  const local = { code: 550, enhanced: '5.7.1', text };
  return { ok: false, evidence: { stage: 'data', cause: SENDER_UNVERIFIED, local } };
}

/** Returns whether the account may still send this prepared message; rejects if `keysFor` rejects. */
export async function isStillVerified(job: DeliveryJob, keysFor: KeysFor): Promise<boolean> {
  return (await keysFor(job.accountId, fromDomain(job))) !== 'unverified';
}

/** Returns the content, or a problem that users may read; its cause, the message of the storage, is only for the operator. */
async function loadContent(
  job: DeliveryJob,
  inline: Uint8Array | null,
  blobs: Blobs,
): Promise<Buffer | { problem: string; cause?: string }> {
  if (inline) {
    if (!isAsAccepted(inline, job.contentDigest)) {
      return { problem: 'the stored content of the message is not what was accepted', cause: 'its SHA-256 differs' };
    }
    return Buffer.from(inline.buffer, inline.byteOffset, inline.byteLength);
  }
  if (job.blobKey === null) return { problem: 'the content of the message is no longer stored' };
  try {
    return (await blobs.get(job.blobKey)) ?? { problem: 'the stored content of the message is missing' };
  } catch (error) {
    const what = error instanceof BlobDamaged ? 'is not what was accepted' : 'cannot be read';
    return { problem: `the stored content of the message ${what}`, cause: (error as Error).message };
  }
}

export function countReceived(content: Buffer): number {
  const header = content.toString('latin1', 0, endOfHeader(content).headerEnd);
  return headerFields(header).filter(({ name }) => name === 'received').length;
}

/** Hashes a large body in slices, so 40 MB do not block the event loop. */
async function prepareInSlices(content: Buffer): Promise<PreparedDkim> {
  const { headerEnd, bodyStart } = endOfHeader(content);
  const body = new BodyHash('relaxed');
  for (let from = bodyStart; from < content.length; from += SLICE_BYTES) {
    body.update(content.subarray(from, from + SLICE_BYTES));
    await nextTurn();
  }
  return prepareDkimHeader(content.subarray(0, headerEnd), body.digest());
}

/**
 * Reads the content and returns it with functions that sign it. `inline` is the content if it came with the job. Rejects only because of
 * bugs; a storage error is a result.
 */
export async function prepare(job: DeliveryJob, inline: Uint8Array | null, deps: PrepareDeps): Promise<PreparedEmail> {
  const content = await loadContent(job, inline, deps.blobs);
  const { files } = job.options;
  const acceptedBytes = files ? job.sizeBytes - encodedFilesBytes(files) : job.sizeBytes;
  if (!Buffer.isBuffer(content) || content.length !== acceptedBytes) {
    const { problem, cause } = Buffer.isBuffer(content)
      ? { problem: `the stored content has ${content.length} bytes instead of ${acceptedBytes}; it is not sent` }
      : content;
    deps.log.error({ messageId: job.messageId, blobKey: job.blobKey, sizeBytes: job.sizeBytes, cause }, problem);
    return unsendable(problem);
  }
  // Messages composed by Postrider have no Received field.
  if (job.source === 'smtp' && countReceived(content) > MAX_RECEIVED) {
    const text = `the message has more than ${MAX_RECEIVED} Received fields, which indicates a mail loop`;
    return { ok: false, evidence: { stage: 'data', local: { code: 554, enhanced: '5.4.6', text } } };
  }
  const large = files && { job, content, files };
  const sendable = large ? await openLarge(large, deps) : content;
  if (typeof sendable === 'string') return unsendable(sendable);
  let signing: Awaited<ReturnType<KeysFor>>;
  try {
    signing = await deps.keysFor(job.accountId, fromDomain(job));
  } catch (error) {
    // Either the storage fails or a key cannot be decrypted. Neither is caused by this message, so it is retried.
    return unsendable(`the signing keys cannot be read: ${(error as Error).message}`);
  }
  if (signing === 'unverified') return unverified(job);
  if (!signing || signing.keys.length === 0) {
    return {
      ok: true,
      content: sendable,
      sign: UNSIGNED,
      signerOf: () => UNSIGNED,
      ownReturnPath: signing?.returnPath,
    };
  }
  // The signature has the time of acceptance, because receivers reject signatures from the future but not from the past.
  let prepared: PreparedDkim | string;
  if (large) prepared = await prepareLargeDkim(large, deps);
  else prepared = content.length <= SLICE_BYTES ? prepareDkim(content) : await prepareInSlices(content);
  if (typeof prepared === 'string') return unsendable(prepared);
  const signers = { ...signing, nowMs: job.createdAt };
  const { bodyHash } = prepared;
  const signerOf = (other: Buffer): Sign => {
    const header = other.subarray(0, endOfHeader(other).headerEnd);
    return createSign(large ? prepareDkimHeader(header, bodyHash) : prepareDkim(other), signers);
  };
  const { returnPath: ownReturnPath } = signing;
  const feedbackDomain = mayReceiveComplaints(job, prepared, signing.domain) ? ownReturnPath : undefined;
  return { ok: true, content: sendable, sign: createSign(prepared, signers), signerOf, ownReturnPath, feedbackDomain };
}

const UNSIGNED: Sign = async (fields) => fields;

/** Returns a signing function. Without extra fields, the signatures are created once for all recipients. */
function createSign(prepared: PreparedDkim, signers: DkimSigners): Sign {
  let signatures: Promise<string> | undefined;
  return async (fields) => {
    if (fields !== '') return (await signPrepared(withFieldsOnTop(prepared, fields), signers)) + fields;
    signatures ??= signPrepared(prepared, signers);
    return signatures;
  };
}

/** Returns whether Postrider composed the message, it has no CFBL-Address yet, and the domain of From signs it (RFC 9477 §3.1.2). */
function mayReceiveComplaints(job: DeliveryJob, { signedFields }: PreparedDkim, domain: string): boolean {
  const hasField = signedFields.split(':').includes('cfbl-address');
  return job.source === 'http' && !hasField && domainToAscii(fromDomain(job)) === domain;
}

/** Returns Postrider's Received field with its CRLF (RFC 5321 §4.4; protocols of RFC 3848 and RFC 6531 §3.7.3). */
export function receivedField(job: DeliveryJob, hostname: string): string {
  const submitter = (job.options.receivedFrom ?? '').replace(/[^\x20-\x7e]/g, '').slice(0, 300);
  const from = submitter === '' ? '' : `from ${submitter}\r\n `;
  const isHttp = job.source === 'http' || job.options.receivedOver === 'HTTP';
  const protocol = isHttp ? 'HTTP' : job.options.smtpUtf8 ? 'UTF8SMTPSA' : 'ESMTPSA';
  return `Received: ${from}by ${hostname} (Postrider) with ${protocol} id ${job.messageId};\r\n ${formatDate(job.createdAt)}\r\n`;
}

type Sendable = PreparedEmail & { ok: true };

type ReencodeResult = { ok: true; content: Buffer; sign: Sign } | { ok: false; enhanced: string; text: string };

export interface OutgoingMail {
  message: SmtpMessage;
  prepared: Sendable;
  /** Postrider's Received field, above the signatures. */
  received: string;
  /** The header fields that are added for these recipients, below the signatures. */
  fields: string;
  /** The number of bytes of `message` above the content. */
  headBytes: number;
}

/** Re-encoded messages by prepared email. Entries are garbage-collected with the email. */
const reencoded = new WeakMap<Sendable, Map<boolean, Promise<ReencodeResult>>>();

async function reencode(
  { prepared, content }: { prepared: Sendable; content: Buffer },
  needs: SevenBitNeeds,
): Promise<ReencodeResult> {
  const result = toSevenBit(content, needs);
  if (!result.ok) return { ok: false, enhanced: result.code, text: result.text };
  return { ok: true, content: result.content, sign: prepared.signerOf(result.content) };
}

function reencodedOnce(email: { prepared: Sendable; content: Buffer }, needs: SevenBitNeeds): Promise<ReencodeResult> {
  const { prepared } = email;
  const known = reencoded.get(prepared) ?? new Map<boolean, Promise<ReencodeResult>>();
  reencoded.set(prepared, known);
  const result = known.get(needs.eightBit) ?? reencode(email, needs);
  known.set(needs.eightBit, result);
  return result;
}

function refusalOf(session: SmtpSession, refused: ReencodeResult & { ok: false }): LocalRefusal {
  const { enhanced, text } = refused;
  const eightBit = enhanced === '5.6.3';
  const lacks = eightBit ? '8-bit content (8BITMIME)' : 'internationalized email (SMTPUTF8)';
  return {
    code: eightBit ? 554 : 553,
    enhanced,
    text: `${session.remoteHost} does not support ${lacks}, and the message cannot be re-encoded: ${text}`,
  };
}

function refuseAll({ recipients }: SmtpMessage, local: LocalRefusal): SendResult {
  const refused = { accepted: false, stage: 'mail' as const, local, message: local.text };
  return { recipients: recipients.map((recipient) => ({ recipient, ...refused })), dialogue: [] };
}

const SEVEN_BIT = { smtpUtf8: false, eightBit: false };

/** Yields a stream whose first bytes, which are not Base64 lines, are replaced with `start`. */
async function* withNewStart(
  start: Buffer,
  content: AsyncIterable<Buffer | Base64Lines>,
  replacedBytes: number,
): AsyncGenerator<Buffer | Base64Lines> {
  yield start;
  let skip = replacedBytes;
  for await (const chunk of content) {
    if (!Buffer.isBuffer(chunk) || skip === 0) yield chunk;
    else {
      const rest = chunk.subarray(Math.min(skip, chunk.length));
      skip -= chunk.length - rest.length;
      if (rest.length > 0) yield rest;
    }
  }
}

/** Sends the message in a form that the peer supports. Never rejects because of the peer. */
export async function sendFitting(session: SmtpSession, sending: OutgoingMail): Promise<SendResult> {
  const { message, prepared, received, fields, headBytes } = sending;
  const { content } = prepared;
  const lacksEightBit = !session.extensions.has('8BITMIME');
  const lacksUtf8 = !session.extensions.has('SMTPUTF8');
  if (!(lacksEightBit || lacksUtf8)) return session.send(message);
  const isInMemory = Buffer.isBuffer(content);
  const needs = {
    eightBit: isInMemory && lacksEightBit && (message.eightBit || !isAscii(content)),
    utf8Headers: lacksUtf8 && message.smtpUtf8,
  };
  if (!needs.eightBit && !needs.utf8Headers) return session.send(message);
  const reencodedEmail = await reencodedOnce({ prepared, content: isInMemory ? content : content.header }, needs);
  if (!reencodedEmail.ok) return refuseAll(message, refusalOf(session, reencodedEmail));
  const head = Buffer.from(`${received}${await reencodedEmail.sign(fields)}`, 'latin1');
  if (!isInMemory) {
    const before = headBytes + content.header.length;
    const start = Buffer.concat([head, reencodedEmail.content]);
    const sizeBytes = message.sizeBytes - before + start.length;
    const streamed = message.content as AsyncIterable<Buffer | Base64Lines>;
    return session.send({ ...message, content: withNewStart(start, streamed, before), sizeBytes, ...SEVEN_BIT });
  }
  return session.send({
    ...message,
    content: [head, reencodedEmail.content],
    sizeBytes: head.length + reencodedEmail.content.length,
    smtpUtf8: false,
    eightBit: !isAscii(reencodedEmail.content),
  });
}
