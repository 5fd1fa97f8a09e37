/**
 * A TLS report as a message (RFC 8460 §5.3). It has `TLS-Required: No` (RFC 8689 §5), since a report of broken TLS must arrive where TLS is
 * broken; for the same reason its sessions are in no report. Pure.
 */
import type { Address } from '../mail/address.ts';
import { CONTENT_TYPE, contactOf, type TlsReport } from './report.ts';

export interface ReportMail {
  /** A key is accepted only once. */
  key: string;
  from: string;
  to: Address;
  subject: string;
  headers: [name: string, value: string][];
  text: string;
  /** The parameter of multipart/report. */
  reportType: 'tlsrpt';
  file: { name: string; contentType: string; content: Buffer };
  lifetimeSeconds: number;
}

export function reportMail(report: TlsReport, { to, lifetimeMs }: { to: Address; lifetimeMs: number }): ReportMail {
  const { domain, submitter, id, fileName, content, day } = report;
  return {
    key: `${id} ${to.address}`,
    from: contactOf(submitter),
    to,
    subject: `Report Domain: ${domain} Submitter: ${submitter} Report-ID: <${id}>`,
    headers: [
      ['TLS-Report-Domain', domain],
      ['TLS-Report-Submitter', submitter],
      ['TLS-Required', 'No'],
      ['Auto-Submitted', 'auto-generated'],
    ],
    text: [
      `TLS results of ${submitter} with the mail servers of ${domain} on ${new Date(day).toISOString().slice(0, 10)} (UTC):`,
      'an aggregate TLS report (RFC 8460) is attached. You get it because the record',
      `_smtp._tls.${domain} in the DNS names this address.`,
      '',
    ].join('\n'),
    reportType: 'tlsrpt',
    file: { name: fileName, contentType: CONTENT_TYPE, content },
    lifetimeSeconds: Math.max(60, Math.floor(lifetimeMs / 1_000)),
  };
}
