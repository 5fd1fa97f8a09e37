/**
 * What became of TLS at the servers of recipients, reported to those who ask for it (TLS-RPT, RFC 8460): counted by day and domain, sent
 * once the day is over.
 */
export { dayOf, openTlsCounters, type TlsCounters } from './counters.ts';
export type { ReportMail } from './mail.ts';
export { startReporter } from './reporter.ts';
export { lastReportsOperation, type ReportsOfDay, removeTlsReportsOperation } from './store.ts';
