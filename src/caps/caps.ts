/**
 * What an account may have at most: the caps, resources counted in the transaction that makes one more, and what is held open at
 * once.
 */
export {
  CAP_NAMES,
  type CapName,
  type CapReached,
  type Caps,
  capReached,
  capsOf,
  HIGHEST_CAP,
  limitReached,
} from './account-caps.ts';
export { type ConcurrencyLimiter, createConcurrencyLimiter } from './concurrency-limiter.ts';
