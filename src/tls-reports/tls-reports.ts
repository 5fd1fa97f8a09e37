/**
 * TLS results at recipients' servers, reported to the domains that request it (TLS-RPT, RFC 8460): counted by day and domain, and sent
 * after the day has ended.
 */
export { dayOf, openTlsCounters, type TlsCounters } from './counters.ts';
export type { ReportMail } from './mail.ts';
export { startReporter } from './reporter.ts';
export { lastReportsOperation, type ReportsOfDay, removeTlsReportsOperation } from './store.ts';
