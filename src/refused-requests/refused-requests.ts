/** What was refused to an account in the last 7 days: recorded behind the answers, listed by `GET /requests`. */
export {
  createRefusedRequests,
  detailsOfItem,
  type RefusedRequest,
  type RefusedRequests,
} from './recorder.ts';
export { KEPT_MS, type Owner, type RefusedRemoval, removeRefusedOperation } from './store.ts';
