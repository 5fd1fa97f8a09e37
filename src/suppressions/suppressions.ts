/**
 * Addresses that an account does not write to: bounced, complained, unsubscribed, or listed by hand. Compared without
 * case, kept per mode, looked up and extended inside the transactions of other
 * stages: of a send, of a delivery, of a recipient who unsubscribes.
 */
export {
  findSuppression,
  findSuppressionOperation,
  importOperation,
  type ListedAddress,
  type ListOf,
  SUPPRESSION_REASONS,
  type Suppression,
  type SuppressionEntry,
  type SuppressionPage,
  searchSuppressionsOperation,
  suppress,
  suppressedAmongOperation,
  suppressedUntil,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from './store.ts';
