/** Refusals of an account's requests in the last 7 days: recorded in the background, listed by `GET /requests`. */
export {
  createRefusedRequests,
  detailsOfItem,
  type RefusedRequest,
  type RefusedRequests,
} from './recorder.ts';
export { KEPT_MS, type Owner, type RefusedRemoval, removeRefusedOperation } from './store.ts';
