/** Examples of the responses that are not JSON, by operation, for /openapi.json. */
import { sampleEvent } from '../events/events.ts';
import { ANN, DAY_BEFORE, ids, SHOP, SUBJECT, TIME } from './api-example-ids.ts';
import { EXAMPLES } from './api-examples.ts';

/** Lines that end in CRLF, as in files. */
const lines = (...all: string[]): string => all.map((line) => `${line}\r\n`).join('');

const mail = (from: string, to: string, subject: string): string =>
  lines(
    `From: ${from}`,
    `To: ${to}`,
    `Subject: ${subject}`,
    'Date: Fri, 20 Nov 2026 09:44:00 +0000',
    'Message-ID: <2zAb01CdEfGhIjKlMnOpQr@shop.example>',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    '',
    'Thank you, Ann.',
  );
const sent = mail(SHOP, ANN, SUBJECT);

const auditCsv = lines(
  'auditId,time,accountId,mode,actorKind,actorId,actorName,address,requestId,action,resource,resourceId,before,after',
  `aud_0VnX3kQ9aB1cD2eF3gH4i,${TIME},${ids.account},live,key,${ids.key},web shop,192.0.2.10,${ids.request},account.update,account,${ids.account},"{""plan"":""free""}","{""plan"":""paid""}"`,
);
const auditJsonLines = `${JSON.stringify(EXAMPLES.AuditEntry)}\n`;

const file = '%PDF-1.7 …';

export const CONTENT_EXAMPLES: Readonly<Record<string, string>> = {
  exportAuditAsCsv: auditCsv,
  exportAuditAsJsonLines: auditJsonLines,
  exportServiceAuditAsCsv: auditCsv,
  exportServiceAuditAsJsonLines: auditJsonLines,
  streamEvents: `retry: 2000\nid: qUYfFNy2tW0kDgA3v9mF1g\n\nid: 3oOa8mD6lHcMPsQ0Jk1b7w\ndata: ${JSON.stringify(sampleEvent('Delivery'))}\n\n`,
  getInboundFile: file,
  getInboundAttachment: file,
  getInboundMailContent: mail(ANN, 'support@in.shop.example', `Re: ${SUBJECT}`),
  getPostmasterMailContent: mail('abuse@provider.example', 'abuse@bounces.example.net', 'Mail from 192.0.2.25'),
  getMessageContent: sent,
  getSharedMessageContent: sent,
  getMetrics:
    '# HELP postrider_queue_depth_messages Messages that wait or are being sent.\n# TYPE postrider_queue_depth_messages gauge\npostrider_queue_depth_messages 2\n',
  exportSuppressions: lines(
    'email,reason,sourceMessageId,expiresAt,createdAt',
    `${ANN},bounce,${ids.message},,${DAY_BEFORE}`,
  ),
  uploadFile: '',
};
