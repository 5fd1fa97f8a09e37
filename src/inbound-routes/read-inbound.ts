/** Parses a message of an inbound route: the content of its event, and whether there is one. */

import { iso } from '../base/clock.ts';
import { newId } from '../base/ids.ts';
import type { Mode } from '../base/mode.ts';
import { type ParsedMail, readMail } from '../mail/inbound/read-mail.ts';
import { replyText, replyTextOfHtml } from '../mail/inbound/reply-text.ts';
import { AUTOMATIC_SUBJECT } from '../mail/report/automatic-phrases.ts';
import type { AuthenticationResults } from './authentication-results.ts';
import { type InboundLinks, LINK_MS } from './links.ts';
import type { ReadInbound } from './message-store.ts';

export interface InboundSource {
  id: string;
  accountId: string;
  mode: Mode;
  routeId: string;
  receivedAtMs: number;
  envelopeFrom: string;
  recipient: string;
}

/** More hops than any legitimate mail has (RFC 5321 §6.3). */
const MOST_HOPS = 30;
const MOST_REFERENCES = 20;
const MESSAGE_ID = /<[^<>\s]{1,900}>/g;

const first = ({ headers }: ParsedMail, name: string): string =>
  headers.find((header) => header.name.toLowerCase() === name)?.value ?? '';
const has = ({ headers }: ParsedMail, ...names: string[]): boolean =>
  headers.some((header) => names.includes(header.name.toLowerCase()));

/**
 * RFC 3834 §5: `auto-replied` marks an automatic reply that must not be answered; `auto-generated` marks a message that a program sent on
 * its own.
 */
const submittedAs = (mail: ParsedMail): string =>
  first(mail, 'auto-submitted')
    .trim()
    .toLowerCase()
    .replace(/[;\s].*$/s, '');

function isAutoReply(mail: ParsedMail): boolean {
  return (
    submittedAs(mail) === 'auto-replied' ||
    has(mail, 'x-autoreply', 'x-autorespond', 'x-autoresponder', 'x-vacation') ||
    /auto[-_]?reply/i.test(first(mail, 'precedence')) ||
    AUTOMATIC_SUBJECT.test(first(mail, 'subject').slice(0, 500))
  );
}

function referencesOf(mail: ParsedMail): string[] {
  const answered = first(mail, 'in-reply-to').match(MESSAGE_ID) ?? [];
  const thread = first(mail, 'references').match(MESSAGE_ID) ?? [];
  return [...new Set([...answered, ...thread.toReversed()])].slice(0, MOST_REFERENCES);
}

/** Prefers the HTML, because the quotation marks of email clients are better known in HTML than in text. */
function replyOf({ text, html, textFromHtml }: ParsedMail): string | null {
  const hasText = !textFromHtml && text !== null && text.trim() !== '';
  return hasText || html === null ? replyText(text) : replyTextOfHtml(html);
}

export interface InboundBytes {
  content: Buffer;
  authentication: AuthenticationResults | Promise<AuthenticationResults> | undefined;
}

export async function readInbound(
  source: InboundSource,
  { content, authentication }: InboundBytes,
  links: InboundLinks,
): Promise<ReadInbound> {
  const mail = await readMail(content);
  const expiresAtMs = source.receivedAtMs + LINK_MS;
  const { headers, text, html, textTruncated, htmlTruncated, unreadable } = mail;
  const headerMessageId = first(mail, 'message-id').match(MESSAGE_ID)?.[0] ?? null;
  const isAutomatic = isAutoReply(mail);
  const attachments = mail.files.map(({ name, contentType, sizeBytes, contentId }, index) => ({
    name,
    contentType,
    sizeBytes,
    contentId,
    url: links.url({ inboundId: source.id, file: index, expiresAtMs }),
  }));
  return {
    ...source,
    headerFrom: first(mail, 'from').slice(0, 1_000).toWellFormed(),
    subject: first(mail, 'subject').slice(0, 998).toWellFormed(),
    sizeBytes: content.length,
    content: {
      inboundId: source.id,
      inboundRouteId: source.routeId,
      envelope: { from: source.envelopeFrom, to: source.recipient },
      headers,
      headerMessageId,
      text,
      html,
      replyText: replyOf(mail),
      textTruncated,
      htmlTruncated,
      attachments,
      rawUrl: links.url({ inboundId: source.id, file: 'raw', expiresAtMs }),
      linksExpireAt: iso(expiresAtMs),
      sizeBytes: content.length,
      autoReply: isAutomatic,
      authentication: await authentication,
      unreadable,
    },
    files: JSON.stringify(mail.files),
    eventId: newId('evt', source.receivedAtMs),
    dropped: mail.hops > MOST_HOPS ? 'too-many-hops' : submittedAs(mail) === 'auto-replied' ? 'auto-reply' : null,
    headerMessageId,
    references: referencesOf(mail),
    namedMessageId: /\+(msg_[0-9A-Za-z]{21})@/.exec(source.recipient)?.[1] ?? null,
  };
}

/** Returns the content of the event for a message whose bytes are lost: the recipient, and a note that the content is unreadable. */
export async function unreadInbound(
  source: InboundSource,
  { sizeBytes, why }: { sizeBytes: number; why: string },
  links: InboundLinks,
): Promise<ReadInbound> {
  const nothing = await readInbound(source, { content: Buffer.alloc(0), authentication: undefined }, links);
  const unread = {
    text: null,
    html: null,
    replyText: null,
    sizeBytes,
    unreadable: [`The complete message is unreadable: ${why}.`],
  };
  return { ...nothing, sizeBytes, content: { ...nothing.content, ...unread } };
}
