/**
 * What recipients' domains ask of connections to their exchangers, and where they say it: DANE (RFC 7672), MTA-STS (RFC 8461).
 */
export {
  type AppliedPolicy,
  type HostPolicy,
  POLICY_UNMET,
  type TlsFailureType,
  type TlsSession,
  underPolicy,
} from './host-policy.ts';
export { openTlsPolicies, type TlsPolicies } from './policies.ts';
