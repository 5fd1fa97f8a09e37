/** Bounces with only human-readable text to a return path, as programs and people write them. */
import { type Report, readReport } from '../../src/mail/report/report.ts';

const TO = 'b+token@bounces.shop.example';
const ORIGINAL = [
  'From: Shop <s@shop.example>',
  'To: ann@peer.example',
  'Subject: Your order',
  'Message-ID: <m@shop.example>',
];

export interface Notice {
  from: string;
  subject: string;
  text: string;
  /** More header fields. */
  fields?: string[];
  /** Quotes the original message in the text, as replies do. */
  isQuoting?: boolean;
}

function written({ from, subject, text, fields = [], isQuoting = false }: Notice): Buffer {
  const encoded = `=?utf-8?B?${Buffer.from(subject).toString('base64')}?=`;
  const quoted = isQuoting ? ['', ...ORIGINAL.map((line) => `> ${line}`), '>', '> Hello'] : [];
  const header = [`From: ${from}`, `To: ${TO}`, `Subject: ${encoded}`, ...fields, 'MIME-Version: 1.0'];
  const body = [
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    ...text.split('\n'),
    ...quoted,
  ];
  return Buffer.from(`${[...header, ...body].join('\r\n')}\r\n`);
}

/** Reads such a message as a report. */
export const readNotice = (mail: Notice): Promise<Report> => readReport(written(mail));
