/** Invitations: a calendar file with a method is also an alternative to the text, as Outlook and Gmail expect. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { parseAddress } from '../address.ts';
import { compose, composedSizeBytes, composeSkeleton, type FileToCompose, type MailToCompose } from './compose.ts';

const ICS = Buffer.from(
  'BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//shop//EN\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:1@shop.example\r\nDTSTAMP:20261120T094400Z\r\nDTSTART:20261121T090000Z\r\nSUMMARY:Übergabe\r\nORGANIZER:mailto:shop@example.com\r\nATTENDEE:mailto:ann@example.org\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n',
);

function mailWith(files: FileToCompose[], parts: Partial<MailToCompose> = {}): MailToCompose {
  const address = (text: string) => {
    const parsed = parseAddress(text);
    assert.ok(parsed.ok);
    return parsed.value;
  };
  return {
    from: address('Shop <shop@example.com>'),
    to: [address('ann@example.org')],
    cc: [],
    replyTo: [],
    subject: 'Handover',
    text: 'See you.',
    html: '<p>See you.</p>',
    headers: [],
    messageId: '<1.abc@example.com>',
    dateMs: Date.UTC(2026, 10, 20, 9, 44),
    attachments: files,
    ...parts,
  };
}

const invitation = (contentType: string, more: Partial<FileToCompose> = {}): FileToCompose => ({
  name: 'invite.ics',
  contentType,
  content: ICS,
  ...more,
});
/** This parser normalizes the line breaks of calendars. */
const sameText = (content: ArrayBuffer): boolean =>
  Buffer.from(content).toString().replaceAll('\r\n', '\n').trim() === ICS.toString().replaceAll('\r\n', '\n').trim();
const types = (content: Buffer): string[] =>
  [...content.toString('latin1').matchAll(/^Content-Type: ([^\r]*)/gm)].map(([, type]) => type!);

test('composes an invitation byte for byte, except its boundary', () => {
  const { content } = compose(mailWith([invitation('text/calendar; method=REQUEST; name="x.ics"')]));
  const token = /=_m\.([a-zA-Z0-9]+)"/.exec(content.toString('latin1'))![1]!;
  const golden = readFileSync(path.join(import.meta.dirname, 'golden', 'invitation.eml'), 'latin1');
  assert.equal(content.toString('latin1').replaceAll(token, 'BOUNDARY'), golden.replaceAll('\n', '\r\n'));
});

test('an email client finds the text, HTML, the invitation as an alternative, and the file', async () => {
  const { content } = compose(mailWith([invitation('text/calendar; method=REQUEST')]));
  const seen = await PostalMime.parse(content, { attachmentEncoding: 'arraybuffer' });
  assert.equal(seen.text?.trim(), 'See you.');
  assert.equal(seen.html?.trim(), '<p>See you.</p>');
  const calendars = seen.attachments.filter((one) => one.mimeType === 'text/calendar');
  assert.deepEqual(
    calendars.map((one) => [one.filename, one.disposition, one.method, sameText(one.content as ArrayBuffer)]),
    [
      [null, null, 'REQUEST', true],
      ['invite.ics', 'attachment', 'REQUEST', true],
    ],
  );
});

test('the invitation has its place in the MIME structure, with and without HTML and inline files', () => {
  const file = invitation('text/calendar; charset=utf-8; method=CANCEL');
  const logo = { name: 'l.png', contentType: 'image/png', content: Buffer.from('x'), contentId: 'logo' };
  const alternative = 'text/calendar; charset=utf-8; method=CANCEL';
  const structures: [Partial<MailToCompose>, FileToCompose[], string[]][] = [
    [
      { html: undefined },
      [file],
      ['multipart/mixed;', 'multipart/alternative;', 'text/plain; charset=utf-8', alternative],
    ],
    [
      { text: undefined },
      [file],
      ['multipart/mixed;', 'multipart/alternative;', 'text/html; charset=utf-8', alternative],
    ],
    [
      {},
      [logo, file],
      [
        'multipart/mixed;',
        'multipart/alternative;',
        'text/plain; charset=utf-8',
        'multipart/related; type="text/html";',
        'text/html; charset=utf-8',
        'image/png;',
        alternative,
      ],
    ],
  ];
  for (const [parts, files, wanted] of structures) {
    const found = types(compose(mailWith(files, parts)).content);
    assert.deepEqual(found.slice(0, -1), wanted);
    assert.match(found.at(-1)!, /^text\/calendar; charset=utf-8; method=CANCEL;$/);
  }
});

test('only one calendar with a method becomes an alternative, unless it is inline or stored elsewhere', () => {
  const counted = (files: FileToCompose[]): number =>
    types(compose(mailWith(files)).content).filter((type) => type.startsWith('text/calendar')).length;
  const request = invitation('TEXT/Calendar ; Method="REQUEST"');
  assert.equal(types(compose(mailWith([request])).content).filter((type) => /calendar/i.test(type)).length, 2);
  assert.equal(counted([invitation('text/calendar; method=REQUEST'), invitation('text/calendar; method=REQUEST')]), 3);
  assert.equal(counted([invitation('text/calendar')]), 1);
  assert.equal(counted([invitation('text/calendar; x=method')]), 1);
  assert.equal(counted([invitation('text/calendar; method=REQUEST', { contentId: 'c' })]), 1);
  const { content: _, ...bySize } = { ...invitation('text/calendar; method=REQUEST'), sizeBytes: ICS.length };
  assert.deepEqual(composeSkeleton({ ...mailWith([]), attachments: [bySize] }).order, [0]);
});

test('the size is computed exactly without reading the file', () => {
  for (const sizeBytes of [0, 1, 57, 58, 4_000]) {
    const content = Buffer.alloc(sizeBytes, 65);
    const mail = mailWith([invitation('text/calendar; method=REQUEST', { content })]);
    const { content: whole } = compose(mail);
    const attachments = mail.attachments.map((file) => ({ ...file, sizeBytes: file.content.length }));
    // All boundaries have the same length.
    assert.equal(composedSizeBytes({ ...mail, attachments }), whole.length);
  }
});
