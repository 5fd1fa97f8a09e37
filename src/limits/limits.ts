/**
 * Limits of accounts: how many resources an account can have, how many calls it can hold open, and how many messages it can send per day
 * and month. The public module of this folder.
 */
export * from './account-limits.ts';
export { type QuotaNoticeOptions, startQuotaNotices } from './quota-notices.ts';
export {
  periodOf,
  type QuotaReached,
  type QuotaUsage,
  quotaExceeded,
  quotaUsageOperation,
  readQuotas,
  recountQuotas,
} from './quota-store.ts';
