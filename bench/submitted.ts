/**
 * The cost of checking and editing submitted mail: CPU time per message of 5 KB, whole and in pieces of a network packet, and for one of
 * 1.9 MB in pieces of 64 KB. Prints the best of several rounds. `node bench/submitted.ts [rounds]`.
 */
import { createSubmissionReader } from '../src/mail/mime/submitted.ts';

const rounds = Math.max(3, Number(process.argv[2] ?? 5));
const line = 'The quick brown fox jumps over the lazy dog, and then it sleeps well.\r\n';
const header =
  'Received: from a.example (a.example [192.0.2.1])\r\n\tby b.example with ESMTPS id 123\r\n\tfor <x@y.example>; Fri, 20 Nov 2026 09:44:00 +0000\r\n' +
  'From: Shop <orders@shop.example>\r\nTo: Ann <ann@example.com>\r\nSubject: Your order 12345 has been shipped\r\n' +
  'Date: Fri, 20 Nov 2026 09:44:00 +0000\r\nMessage-ID: <123.456@shop.example>\r\nReply-To: help@shop.example\r\n' +
  'List-Unsubscribe: <https://shop.example/u/123>\r\nMIME-Version: 1.0\r\nX-Mailer: mailer\r\n';
const part = (type: string, lines: number): string =>
  `--_part-1\r\nContent-Type: text/${type}; charset=utf-8\r\n\r\n${line.repeat(lines)}`;
const plain = `${header}Content-Type: text/plain; charset=utf-8\r\n\r\n${line.repeat(62)}`;

const CASES: [name: string, mail: string, pieceBytes: number, mails: number][] = [
  ['plain text, whole', plain, 1e9, 10_000],
  ['plain text, in packets', plain, 1460, 10_000],
  [
    'text and html',
    `${header}Content-Type: multipart/alternative; boundary="_part-1"\r\n\r\n${part('plain', 20)}${part('html', 40)}--_part-1--\r\n`,
    1e9,
    10_000,
  ],
  [
    'edited: tag, no Date, no Message-ID',
    `X-Postrider-Tag: a\r\n${plain.replace(/^(?:Date|Message-ID):.*\r\n/gm, '')}`,
    1e9,
    10_000,
  ],
  ['1.9 MB', `${header}\r\n${line.repeat(27_000)}`, 65_536, 40],
];

function read(mail: Buffer, pieceBytes: number): void {
  const reader = createSubmissionReader({
    sink: () => {},
    nowMs: Date.now(),
    maxBytes: 2_000_000,
    hostname: 'mx.example',
  });
  for (let at = 0; at < mail.length; at += pieceBytes) reader.write(mail.subarray(at, at + pieceBytes));
  const result = reader.end();
  if (!result.ok) throw new Error(result.refusal.text);
}

for (const [name, text, pieceBytes, mails] of CASES) {
  const mail = Buffer.from(text);
  let best = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const start = process.cpuUsage();
    for (let i = 0; i < mails; i += 1) read(mail, pieceBytes);
    const used = process.cpuUsage(start);
    best = Math.min(best, (used.user + used.system) / mails);
  }
  console.log(`${name.padEnd(38)} ${String(mail.length).padStart(8)} bytes ${best.toFixed(1).padStart(8)} µs`);
}
