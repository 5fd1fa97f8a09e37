/**
 * Addresses that an account does not send to: bounced, complained, unsubscribed, or added manually. Compared without case, stored per mode,
 * and read and extended inside the transactions of sends, deliveries, and unsubscribes.
 */
export { type AddressHash, createAddressHash } from './address-hash.ts';
export {
  type FoundSuppression,
  findSuppression,
  findSuppressionOperation,
  importOperation,
  type ListedAddress,
  type ListKey,
  REASON_STRENGTH,
  SUPPRESSION_REASONS,
  type Suppression,
  type SuppressionEntry,
  type SuppressionPage,
  type SuppressionReason,
  searchSuppressionsOperation,
  suppress,
  suppressedAmongOperation,
  suppressedUntil,
  suppressionsByEmailOperation,
  suppressionsOperation,
  suppressOperation,
  unsuppressOperation,
} from './store.ts';
