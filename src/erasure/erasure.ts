/**
 * Erasure of a recipient's data from an account (GDPR, article 17): messages with their events and attempts, inbound mail, and everything
 * else that names the address. The suppression of the address stays as a keyed hash, so the address receives no mail afterwards.
 */
export {
  ERASURE_WORK,
  type Erasure,
  findErasureOperation,
  listErasuresOperation,
  type Progress,
  sealContext,
  startErasureOperation,
} from './store.ts';
export { type ErasureDeps, startErasures } from './worker.ts';
