/**
 * Sender domains: adding and verifying them, their DNS records, and the checks for sending (whether an account may send from a domain, and
 * which keys sign its mail).
 */

export { findTlsRecords } from './bounce-domain-records.ts';
export { type DnsRecord, knownRecords, lookUpRecords } from './dns-records.ts';
export {
  createDkimKeyring,
  createSenderCheck,
  type SenderCheck,
} from './keyring.ts';
export { type DomainChecksOptions, startDomainChecks } from './recheck.ts';
export { createSenderAdvice } from './sender-advice.ts';
export { lookUpSpf } from './spf.ts';
export {
  coveringDomains,
  domainOperation,
  domainsToCheckOperation,
  type ReturnPathState,
  returnPathStateOperation,
  SENDS_WHILE_FAILING_MS,
  type SenderDomain,
  senderDomainName,
  signingAccountOperation,
} from './store.ts';
export { createHostProbe, openTrackingHosts, type TrackingHosts } from './tracking-hosts.ts';
export { addDomain, verifyDomain } from './verify.ts';
export { zoneServers } from './zone-servers.ts';
