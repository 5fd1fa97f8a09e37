/** A message of an exact size with two files and lines that start with dots, as another server sends it. */
import { randomBytes } from 'node:crypto';
import { base64Text } from './large-mail.ts';

export interface MailOfSize {
  content: Buffer;
  /** Its decoded files. */
  files: [Buffer, Buffer];
}

const DOTS = '.\r\n..two\r\n...three\r\n';

/** `sizeBytes` is at least 10,000. The larger file takes three quarters of it. */
export function mailOfSize(sizeBytes: number, subject = 'large'): MailOfSize {
  const large = randomBytes(Math.floor(sizeBytes * 0.55));
  const head = [
    'Return-Path: <ann@mx.example>',
    'Received: from a.example by mx.example; Mon, 23 Nov 2026 09:00:00 +0000',
    'From: Ann <ann@mx.example>',
    `Subject: ${subject}`,
    'MIME-Version: 1.0',
    'Content-Type: multipart/mixed; boundary="b25"',
    '',
    '--b25',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    'Grüße',
    `${DOTS}--b25`,
    'Content-Type: application/zip; name="large.zip"',
    'Content-Transfer-Encoding: base64',
    '',
    `${base64Text(large)}--b25`,
    'Content-Type: application/octet-stream; name="rest.bin"',
    'Content-Transfer-Encoding: 8bit',
    '',
    '',
  ].join('\r\n');
  const end = '\r\n--b25--\r\n';
  const left = sizeBytes - Buffer.byteLength(head) - Buffer.byteLength(end);
  const line = `.${'z'.repeat(75)}\r\n`;
  const rest = Buffer.from(`${line.repeat(Math.ceil(left / line.length)).slice(0, left - 1)}e`);
  // The filler must not end in the middle of a line end.
  if (rest.at(-2) === 13) rest[left - 2] = 0x7a;
  return { content: Buffer.concat([Buffer.from(head), rest, Buffer.from(end)]), files: [large, rest] };
}

/** Returns the content with stuffed dots (RFC 5321 §4.5.2) and the final dot. */
export function stuffed(content: Buffer): Buffer {
  return Buffer.from(`${content.toString('latin1').replace(/^\./gm, '..')}.\r\n`, 'latin1');
}
