/**
 * Mail of the service itself: what an account is told about its own affairs. It is accepted and delivered like any other mail,
 * with the same schedule and from the same queue, under an account of its own that nobody logs in to: it appears in no
 * account's messages, counts against nobody, and has no webhooks, so that news about webhooks never sets off more news. The
 * sender is postmaster of the name that this service goes by; RFC 3834 keeps other robots from answering.
 */
import { createHash } from 'node:crypto';
import { contactsOperation } from '../accounts/accounts.ts';
import { newId, randomText } from '../base/ids.ts';
import type { Config } from '../config.ts';
import { type Address, parseAddress } from '../mail/address.ts';
import { compose } from '../mail/compose/compose.ts';
import { type ComposedEmail, createAcceptEmails } from '../send/send.ts';
import type { Notice, Notify } from '../webhooks/webhooks.ts';
import type { Parts } from './parts.ts';

/** The account of all mail of the service itself. */
export const SYSTEM_ACCOUNT = 'acc_postrider';
const ENDPOINT = '/notices';
const LIFETIME_SECONDS = 259_200;

/** Postmaster of the first of our names that mail can have; undefined when we have none. */
export function systemSender(config: Pick<Config, 'smtpHostname' | 'baseUrl'>): Address | undefined {
  const names = [config.smtpHostname, ...(config.baseUrl === undefined ? [] : [new URL(config.baseUrl).hostname])];
  for (const name of names) {
    const sender = parseAddress(`Postrider <postmaster@${name}>`);
    if (sender.ok) return sender.value;
  }
  return undefined;
}

function emailTo(
  recipient: Address,
  sender: Address,
  { notice, nowMs }: { notice: Notice; nowMs: number },
): ComposedEmail {
  const messageId = `<${randomText(26)}@${sender.domain}>`;
  const { content, smtpUtf8 } = compose({
    ...{ from: sender, to: [recipient], cc: [], replyTo: [], subject: notice.subject, text: notice.text },
    ...{ headers: [['Auto-Submitted', 'auto-generated']], messageId, dateMs: nowMs, attachments: [] },
  });
  return {
    headerFrom: `${sender.name} <${sender.address}>`,
    headerTo: { to: [recipient.address], cc: [] },
    envelopeFrom: sender.address,
    subject: notice.subject,
    headerMessageId: messageId,
    tags: [],
    metadata: {},
    options: { requireTls: false, smtpUtf8, eightBit: false, expiresAfterSeconds: LIFETIME_SECONDS },
    content,
    recipients: [{ messageId: newId('msg', nowMs), address: recipient, role: 'to', simulateSuppressed: false }],
  };
}

/** Those that mail can have; the operator of a first run is called operator@localhost. */
function reachable(addresses: readonly string[]): Address[] {
  return addresses.flatMap((text) => {
    const parsed = parseAddress(text);
    return parsed.ok ? [parsed.value] : [];
  });
}

/** `nudge` tells the delivery of this process, if there is one, that there is something to do. */
export function createNotify(parts: Parts, nudge: () => void): Notify {
  const { config, database, blobs, clock, log } = parts;
  const handover = { hasRoom: () => false, offer: () => undefined };
  const acceptEmails = createAcceptEmails({ database, blobs, clock, handover, onAccepted: nudge });
  const sender = systemSender(config);
  return async (notice) => {
    const { accountId, key, subject } = notice;
    const { users, operators } = await database.execute(contactsOperation, accountId);
    const own = reachable(users);
    const recipients = own.length > 0 ? own : reachable(operators);
    if (!sender || recipients.length === 0) {
      const why = sender
        ? 'the account has no user whose address mail can reach, nor is there such an operator: see postrider user create'
        : 'this service has no name to write from: set POSTRIDER_SMTP_HOSTNAME or POSTRIDER_BASE_URL';
      log.warn({ accountId, subject, why }, 'an account could not be told by mail');
      return;
    }
    const nowMs = clock.now();
    await acceptEmails({
      accountId: SYSTEM_ACCOUNT,
      mode: 'live',
      source: 'http',
      nowMs,
      clockOffsetMs: 0,
      from: sender.address,
      // One for each, so that nobody learns who else is told.
      emails: recipients.map((recipient) => emailTo(recipient, sender, { notice, nowMs })),
      retain: '7d',
      sendAtMs: null,
      expiresAfterSeconds: LIFETIME_SECONDS,
      idempotency: {
        endpoint: ENDPOINT,
        key,
        bodyHash: createHash('sha256').update(notice.text).digest(),
        status: 202,
      },
    });
  };
}
