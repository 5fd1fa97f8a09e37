/**
 * Addresses that an account does not write to: bounced, complained, unsubscribed, or listed by hand. Compared without
 * case, kept per mode, and looked up inside the transaction that accepts a send.
 */
export { readSuppressions, suppressionsCsv } from './csv.ts';
export {
  importOperation,
  type ListOf,
  SUPPRESSION_REASONS,
  type Suppression,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from './store.ts';
