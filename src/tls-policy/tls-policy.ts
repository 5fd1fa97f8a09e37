/**
 * The TLS policies of recipients' domains for connections to their MX hosts: DANE (RFC 7672) and MTA-STS (RFC 8461).
 */
export {
  type AppliedPolicy,
  type HostPolicy,
  type TlsFailureType,
  type TlsSession,
  underPolicy,
} from './host-policy.ts';
export { openTlsPolicies, type TlsPolicies } from './policies.ts';
