/**
 * The commands of the inbound port: from any client, without a login, to known recipients (src/inbound) only. Nothing is relayed. All
 * unknown recipients are refused with the same text after the same work; a client that names too many is disconnected. The maximum size
 * depends on the recipients: reports are small. If the size is not declared, recipients with different limits are accepted in separate
 * transactions, so that none misses a message because of another's limit.
 */
import { newId } from '../base/ids.ts';
import type { InboundFacts, NewInbound, Recipients, Taken, Use } from '../inbound/inbound.ts';
import type { HourlyCount } from '../limits/limits.ts';
import { type Address, sameAddressKey } from '../mail/address.ts';
import { parseInboundMail, parseInboundRecipient } from './command.ts';
import { withoutArgument } from './commands.ts';
import {
  BUSY,
  type Dialogue,
  defaultLimits,
  type InboundEnvelope,
  isSyntaxError,
  NO_MAIL,
  orBusy,
  type Pending,
  type Profile,
  refuse,
  type SmtpLimits,
  TOO_LARGE,
} from './dialogue.ts';
import { beginInboundTransfer, type StoredContent } from './inbound-transfer.ts';

export interface InboundPort {
  recipients: Recipients;
  /** Whether disk space is too low for mail of routes. Such mail is deferred before submissions are. */
  isScarce(): boolean;
  /** Messages for routes in the current hour, by account, so one account cannot fill the disk. */
  hourly: HourlyCount;
  /** Resolves once the copies of a message, or their results, are on stable storage. */
  store(mails: NewInbound[]): Promise<void>;
}

/** Inbound mail is larger than submitted mail, and a foreign server needs fewer commands than a customer's client. */
export const inboundLimits: SmtpLimits = {
  ...defaultLimits,
  maxMessageBytes: 50_000_000,
  maxDiscardBytes: 100_000_000,
  maxRecipients: 100,
  maxRefusedRecipients: 20,
  maxConnectionsPerAddress: 10,
  maxConnections: 1_000,
  // 50 MB may take 3.5 hours; an attacker needs 4 MB/s to hold all connections.
  dataMs: 180_000,
  dataBytesPerSecond: 4_000,
};

/** Mail to postmaster and abuse is read by people, who also get its files. */
const LETTER_BYTES = 10_000_000;

const APART = '452 4.5.3 different size limit for this recipient: send separately, or declare SIZE';
const OVER_LIMIT = '452 4.2.2 hourly limit of this recipient reached; try again later';
const NOBODY = '550 5.1.1 no such recipient';

function beginMail(dialogue: Dialogue, argument: string): undefined {
  if (dialogue.helo === undefined) return dialogue.clientError('503 5.5.1 send EHLO first');
  if (dialogue.envelope !== undefined)
    return dialogue.clientError('503 5.5.1 a message is already in progress; send RSET to discard it');
  const parsed = parseInboundMail(argument);
  if (!parsed.ok) {
    return isSyntaxError(parsed.reply) ? dialogue.clientError(parsed.reply) : refuse(dialogue, parsed.reply);
  }
  const { from, sizeBytes = 0, smtpUtf8 } = parsed.value;
  const { limits, closedToMail } = dialogue.services;
  if (sizeBytes > limits.maxMessageBytes) return refuse(dialogue, TOO_LARGE(limits.maxMessageBytes));
  if (closedToMail() !== undefined) return refuse(dialogue, BUSY);
  dialogue.envelope = { kind: 'inbound', from, sizeBytes, smtpUtf8, refused: 0, recipients: new Map() };
  dialogue.reply('250 2.1.0 OK');
}

/** `postmaster` is valid without a domain (RFC 5321 §4.5.1). */
const BARE_POSTMASTER = /^TO:\s*<postmaster>\s*$/i;
const POSTMASTER: Address = { name: '', local: 'postmaster', domain: '', address: 'postmaster' };

function addRecipient(port: InboundPort, dialogue: Dialogue, argument: string): Pending {
  const { envelope } = dialogue;
  if (envelope?.kind !== 'inbound') return refuse(dialogue, NO_MAIL);
  if (dialogue.refusedRecipients >= dialogue.services.limits.maxRefusedRecipients)
    return dialogue.hangUp('421 4.7.0 too many rejected recipients');
  const parsed = BARE_POSTMASTER.test(argument)
    ? ({ ok: true, value: POSTMASTER } as const)
    : parseInboundRecipient(argument, envelope.smtpUtf8);
  if (!parsed.ok) {
    return isSyntaxError(parsed.reply) ? dialogue.clientError(parsed.reply) : refuseRecipient(dialogue, parsed.reply);
  }
  const { value } = parsed;
  const acceptFor = (taken: Taken | undefined): undefined => take(port, { dialogue, envelope, address: value, taken });
  return orBusy(dialogue, () => {
    const found = port.recipients.find(value);
    return found instanceof Promise ? found.then(acceptFor) : acceptFor(found);
  });
}

interface Query {
  dialogue: Dialogue;
  envelope: InboundEnvelope;
  address: Address;
  taken: Taken | undefined;
}

function take({ isScarce, hourly }: InboundPort, { dialogue, envelope, address, taken }: Query): undefined {
  const { maxRecipients } = dialogue.services.limits;
  const { recipients, sizeBytes } = envelope;
  if (taken === undefined) return refuseRecipient(dialogue, NOBODY);
  if (taken.use.kind === 'route') {
    if (taken.isSuspended || isScarce()) return refuse(dialogue, BUSY);
    const { mailPerHour = Number.POSITIVE_INFINITY } = taken;
    if (hourly.isReached(taken.use.accountId, mailPerHour)) {
      dialogue.services.metrics.inboundRoutes['over-limit'].inc();
      return refuse(dialogue, OVER_LIMIT);
    }
  }
  if (sizeBytes > taken.maxBytes) return refuseRecipient(dialogue, TOO_LARGE(taken.maxBytes));
  const [first] = recipients.values();
  if (sizeBytes === 0 && first !== undefined && first.maxBytes !== taken.maxBytes) return refuse(dialogue, APART);
  const key = sameAddressKey(address);
  // Repeating a recipient costs as much as the first time, without progress.
  if (recipients.has(key)) dialogue.fruitless += 1;
  if (recipients.size >= maxRecipients && !recipients.has(key)) {
    return refuse(dialogue, `452 4.5.3 too many recipients: at most ${maxRecipients} per message`);
  }
  recipients.set(key, { ...taken, address: address.address });
  dialogue.reply('250 2.1.5 OK');
}

function refuseRecipient(dialogue: Dialogue, line: string): undefined {
  dialogue.refusedRecipients += 1;
  refuse(dialogue, line);
}

function beginData(port: InboundPort, dialogue: Dialogue): undefined {
  const { services, envelope, helo, address, tlsProtocol } = dialogue;
  if (envelope?.kind !== 'inbound') return refuse(dialogue, NO_MAIL);
  if (envelope.recipients.size === 0) return refuse(dialogue, '554 5.5.1 no valid recipients');
  if (services.closedToMail() !== undefined) return refuse(dialogue, BUSY);
  const recipients = [...envelope.recipients.values()];
  dialogue.transfer = beginInboundTransfer({
    services,
    maxBytes: Math.min(...recipients.map(({ maxBytes }) => maxBytes)),
    wholeBytes: Math.max(...recipients.map(wholeBytesOf)),
    isReport: recipients.some(({ use }) => use.kind !== 'route'),
    store: async ({ whole, report, receivedBytes }) => {
      const nowMs = services.clock.now();
      const facts: Omit<InboundFacts, 'id' | 'recipient' | 'use' | 'sizeBytes'> = {
        receivedAtMs: nowMs,
        envelopeFrom: envelope.from,
        client: { address, helo: helo ?? '', tls: tlsProtocol },
      };
      const mails = recipients.map((taken) => {
        const isWhole = whole !== undefined && receivedBytes <= wholeBytesOf(taken);
        const { address: recipient, use } = taken;
        return {
          ...facts,
          ...contentOf((isWhole ? whole : report)!),
          id: newId('inb', nowMs),
          recipient,
          nowMs,
          use: isLetter(use) && !isWhole ? { ...use, receivedBytes } : use,
        };
      });
      await port.store(mails);
      // Checked before and counted now: a client that names recipients and sends nothing uses nothing up.
      for (const { use } of mails) if (use.kind === 'route') port.hourly.add(use.accountId);
      const inboundIds = mails.map(({ id }) => id);
      const uses = mails.map(({ use }) => use.kind);
      services.log.info({ inboundIds, uses, sizeBytes: receivedBytes, address }, 'inbound message accepted');
      return inboundIds[0]!;
    },
  });
  dialogue.envelope = undefined;
  dialogue.reply('354 end the mail with <CRLF>.<CRLF>');
}

const isLetter = ({ kind }: Use): boolean => kind === 'abuse' || kind === 'postmaster';

/** A message up to this size is stored as received; of a larger one only the parts of a report are. */
function wholeBytesOf({ use, maxBytes }: Taken): number {
  if (use.kind === 'route') return maxBytes;
  return isLetter(use) ? LETTER_BYTES : 0;
}

function contentOf({ content, sizeBytes }: StoredContent) {
  return Buffer.isBuffer(content)
    ? { content, blobKey: null, sizeBytes }
    : { content: null, blobKey: content.blobKey, sizeBytes };
}

export function createInboundProfile(port: InboundPort): Profile {
  return {
    verbs: new Map([
      ['MAIL', beginMail],
      ['RCPT', (dialogue, argument) => addRecipient(port, dialogue, argument)],
      ['DATA', withoutArgument((dialogue) => beginData(port, dialogue))],
    ]),
    offered: () => [],
    knows: () => false,
  };
}
