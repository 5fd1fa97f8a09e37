/**
 * Addresses that an account does not write to: bounced, complained, unsubscribed, or listed by hand. Compared without
 * case, kept per mode, and looked up inside the transaction that accepts a send.
 */
export { readSuppressions, suppressionsCsv } from './csv.ts';
export {
  findSuppressionOperation,
  importOperation,
  type ListOf,
  SUPPRESSION_REASONS,
  type Suppression,
  type SuppressionPage,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressionsPartOperation,
  suppressOperation,
  unsuppressOperation,
} from './store.ts';
