/**
 * Lists the DNS records of a sender domain: the values to publish, and the values that are currently published. Only the record of the RSA
 * key decides whether the domain is verified: publishing it proves control of the zone, and every receiver supports RSA. Messages are also
 * signed with Ed25519 once the record of that key has been found. SPF, DMARC, and the return path are checked and reported because they
 * improve delivery.
 */
import { iso } from '../base/clock.ts';
import type { Dns, DnsAnswer } from '../net/dns.ts';
import { type TlsRecord, tlsRecordsOf } from './bounce-domain-records.ts';
import { appliedDmarc, findDmarc } from './dmarc.ts';
import { type Finding, findKey } from './key-record.ts';
import { type FindServers, lookUpPublished, type Publication } from './published.ts';
import { lookUpSpf, suggestedSpf } from './spf.ts';
import {
  type DomainKey,
  isDeciding,
  isMarkedVerified,
  type KeyState,
  RETIRED_KEPT_MS,
  RETURN_PATH_LABEL,
  type SenderDomain,
  type TrackingState,
} from './store.ts';
import { type IsServed, trackingHostOf, trackingUrl } from './tracking-hosts.ts';

/** `pending`: the record was not looked up for this response. `unknown`: the lookup failed, or Postrider cannot determine the status. */
type RecordStatus = 'verified' | 'missing' | 'different' | 'unknown' | 'pending';

export interface DnsRecord {
  purpose: 'dkim' | 'spf' | 'dmarc' | 'return-path' | 'tracking' | TlsRecord['purpose'];
  type: 'TXT' | 'CNAME';
  name: string;
  value: string;
  status: RecordStatus;
  /** The currently published records of this kind; null if they were not looked up or the lookup failed. */
  found: string[] | null;
  required: boolean;
  /** The state of the key; set for DKIM records only. */
  keyState?: KeyState;
  /** Explains the state and the next step; null if the status is sufficient. */
  note: string | null;
}

/** The settings of this installation that the records depend on. */
export interface RecordSettings {
  /** The host name of the sending server, which SPF authorizes. */
  sendingHost: string;
  /** The domain that receives bounces. */
  bounceDomain?: string | undefined;
  /** POSTRIDER_BASE_URL. Links in email of domains without a tracking host use its host. */
  baseUrl?: string | undefined;
}

export interface LookUpDeps extends RecordSettings {
  dns: Dns;
  /** Finds the zone's authoritative servers; if none are known, the resolver's answer is used. */
  serversOf?: FindServers;
  /** Checks whether this service responds at an address; if absent, tracking hosts are not checked. */
  isServed?: IsServed | undefined;
}

/** A record with its published state. */
export interface CheckedRecord {
  record: DnsRecord;
  /** The key; set for DKIM records only. */
  key?: DomainKey;
  /** Whether every responding server of the zone has the record. */
  isEverywhere: boolean;
  /** Whether at least one of these servers has it. */
  isSomewhere: boolean;
  /** The servers of the zone that did not respond. */
  unanswered?: string[];
  /** The state of the tracking host; null if its record does not point to Postrider, undefined if unknown. */
  tracking?: TrackingState | null | undefined;
}

const NOT_LOOKED_UP = { status: 'pending', found: null, required: false, note: null } as const;

function keyRecord(domain: SenderDomain, key: DomainKey): DnsRecord {
  const name = `${key.selector}._domainkey.${domain.domain}`;
  const shown = { required: isDeciding(key), keyState: key.state, note: noteOfState(key) };
  return { ...NOT_LOOKED_UP, purpose: 'dkim', type: 'TXT', name, value: key.publicKey, ...shown };
}

/** Returns the note about the state of the key; null for an active key. */
function noteOfState({ state, retiredAt }: DomainKey): string | null {
  if (state === 'next')
    return 'The next key. Publish it now. Postrider signs with it once all name servers of the zone have served it for an hour.';
  if (state !== 'retired') return null;
  const until = iso((retiredAt ?? 0) + RETIRED_KEPT_MS).slice(0, 10);
  return `Postrider no longer signs with this key. Keep the record until ${until}, so receivers can verify email already sent; then remove it.`;
}

function spfRecord({ domain }: SenderDomain, { sendingHost }: RecordSettings): DnsRecord {
  return { ...NOT_LOOKED_UP, purpose: 'spf', type: 'TXT', name: domain, ...suggestedSpf(sendingHost) };
}

function dmarcRecord({ domain }: SenderDomain): DnsRecord {
  return { ...NOT_LOOKED_UP, purpose: 'dmarc', type: 'TXT', name: `_dmarc.${domain}`, value: 'v=DMARC1; p=none' };
}

/** Returns the record of the return path. Its name is below the sender domain, so both are aligned for DMARC (RFC 9989 §4.4.2). */
function returnPathRecord({ domain }: SenderDomain, { bounceDomain }: RecordSettings): DnsRecord | undefined {
  const name = `${RETURN_PATH_LABEL}${domain}`;
  if (bounceDomain === undefined || bounceDomain === name) return undefined;
  return { ...NOT_LOOKED_UP, purpose: 'return-path', type: 'CNAME', name, value: bounceDomain };
}

/** Returns the records of the bounce domain if it belongs to this sender domain, whose owner can publish them. */
function tlsRecords({ domain }: SenderDomain, { bounceDomain }: RecordSettings): TlsRecord[] {
  if (bounceDomain === undefined || !`.${bounceDomain}`.endsWith(`.${domain}`)) return [];
  return tlsRecordsOf(bounceDomain);
}

function tlsRecord({ purpose, name, value }: TlsRecord): DnsRecord {
  return { ...NOT_LOOKED_UP, purpose, type: 'TXT', name, value };
}

/** Returns the record of the tracking host, a host in the sender domain that links in email use. */
function trackingRecord({ domain }: SenderDomain, { baseUrl }: RecordSettings): DnsRecord | undefined {
  const host = trackingUrl(baseUrl, domain)?.host;
  if (host === undefined) return undefined;
  return { ...NOT_LOOKED_UP, purpose: 'tracking', type: 'CNAME', name: trackingHostOf(domain), value: host };
}

function knownTracking(domain: SenderDomain, settings: RecordSettings): DnsRecord | undefined {
  const record = trackingRecord(domain, settings);
  if (!record || domain.tracking === null) return record;
  const note = trackingNote(domain, settings, domain.tracking);
  return { ...record, status: 'verified', note };
}

function trackingNote({ domain }: SenderDomain, { baseUrl }: RecordSettings, state: TrackingState): string {
  const url = trackingUrl(baseUrl, domain)!.url;
  if (state === 'served') return `Links in email from ${domain} point to ${url}.`;
  const needs = url.startsWith('https:') ? ', with a certificate that is valid for it' : '';
  return `The CNAME record is correct. Links in email from ${domain} use this name once Postrider responds at ${url}/health${needs}. Until then they point to ${baseUrl}.`;
}

const MARKED_AS_VERIFIED =
  'An operator marked this domain as verified without a DNS check. Publish this record and verify the domain.';

/** Returns the record of a key with the result of the last check, without a DNS lookup. */
function knownKey(domain: SenderDomain, key: DomainKey): DnsRecord {
  const record = keyRecord(domain, key);
  if (key.publishedAt !== null) return { ...record, status: 'verified' };
  if (record.required && isMarkedVerified(domain)) return { ...record, note: MARKED_AS_VERIFIED };
  if (key.state !== 'active') return record;
  return domain.checkedAt === null || domain.status === 'pending' ? record : { ...record, status: 'missing' };
}

/** Returns the records without DNS lookups. DKIM and tracking records have the result of the last check. */
export function knownRecords(domain: SenderDomain, settings: RecordSettings): DnsRecord[] {
  const others = [returnPathRecord(domain, settings), knownTracking(domain, settings)];
  return [
    ...domain.keys.map((key) => knownKey(domain, key)),
    spfRecord(domain, settings),
    dmarcRecord(domain),
    ...others.filter((record) => record !== undefined),
    ...tlsRecords(domain, settings).map(tlsRecord),
  ];
}

/** Looks up all records in parallel; DKIM records come first, in the order of the keys. */
export async function checkRecords(domain: SenderDomain, lookUp: LookUpDeps): Promise<CheckedRecord[]> {
  const keys = domain.keys.map((key) => lookUpKey(domain, key, lookUp));
  const others = [lookUpSpfRecord(domain, lookUp), lookUpDmarc(domain, lookUp)];
  const aliases = [lookUpReturnPath(domain, lookUp), lookUpTracking(domain, lookUp)];
  const tlsChecks = tlsRecords(domain, lookUp).map((record) => lookUpTls(record, lookUp));
  const found = await Promise.all([...keys, ...others, ...aliases, ...tlsChecks]);
  return found.filter((one) => one !== undefined);
}

/** Looks up the records and returns only what the API displays. */
export async function lookUpRecords(domain: SenderDomain, lookUp: LookUpDeps): Promise<DnsRecord[]> {
  return (await checkRecords(domain, lookUp)).map(({ record }) => record);
}

const noServers: FindServers = async () => [];

function publishedAs<F extends Finding>(record: DnsRecord, { finding, ...where }: Publication<F>): CheckedRecord {
  // The record of a retired key requires no action even if it is missing, so the note of its finding is omitted.
  const notes = record.keyState === 'retired' ? [record.note] : [finding.note, record.keyState ? record.note : null];
  if (record.keyState === 'next' && where.isEverywhere && where.unanswered.length > 0) {
    notes.push(`No response from ${where.unanswered.join(', ')}. Postrider waits for a response for up to a day.`);
  }
  const note = notes.filter((one) => one !== null).join(' ');
  return { record: { ...record, ...finding, note: note === '' ? null : note }, ...where };
}

async function lookUpKey(domain: SenderDomain, key: DomainKey, lookUp: LookUpDeps): Promise<CheckedRecord> {
  const record = keyRecord(domain, key);
  const { dns, serversOf = noServers } = lookUp;
  const classify = (answer: DnsAnswer<string[]>): Finding => findKey(record, answer);
  const published = await lookUpPublished({ name: record.name, dns, serversOf, classify });
  const elsewhere = published.finding.status === 'missing' ? await findMisplaced(domain, record, dns) : undefined;
  return { ...publishedAs(record, published), key, ...(elsewhere && { record: elsewhere }) };
}

/** Finds a record that was published under a wrong name, for example because the DNS provider's form appends the zone to names. */
async function findMisplaced(domain: SenderDomain, record: DnsRecord, dns: Dns): Promise<DnsRecord | undefined> {
  const labels = domain.domain.split('.');
  const parents = labels.slice(0, -1).map((_, index) => labels.slice(index).join('.'));
  const host = record.name.slice(0, -domain.domain.length - 1);
  const doubled = parents.map((zone) => ({ at: `${record.name}.${zone}`, zone, isDoubled: true }));
  const above = parents.slice(1).map((zone) => ({ at: `${host}.${zone}`, zone, isDoubled: false }));
  const hits = await Promise.all(
    [...doubled, ...above].map(async (one) => {
      const finding = findKey({ name: one.at, value: record.value }, await dns.resolveTxt(one.at));
      return finding.status === 'verified' ? { ...one, found: finding.found } : undefined;
    }),
  );
  const hit = hits.find((one) => one !== undefined);
  if (!hit) return undefined;
  const within = record.name.slice(0, -hit.zone.length - 1);
  const why = hit.isDoubled ? `your DNS provider appends ${hit.zone} automatically` : `part of the name is missing`;
  const note = `The record is published at ${hit.at} instead of ${record.name}, because ${why}. Enter ${within} as its name in the zone ${hit.zone}.`;
  return { ...record, status: 'missing', found: hit.found, note };
}

async function lookUpSpfRecord(domain: SenderDomain, lookUp: LookUpDeps): Promise<CheckedRecord> {
  const { dns, sendingHost, serversOf = noServers } = lookUp;
  const record = spfRecord(domain, lookUp);
  const classify = (answer: DnsAnswer<string[]>) => lookUpSpf(domain.domain, { dns, sendingHost, answer });
  return publishedAs(record, await lookUpPublished({ name: record.name, dns, serversOf, classify }));
}

async function lookUpDmarc(domain: SenderDomain, { dns, serversOf = noServers }: LookUpDeps): Promise<CheckedRecord> {
  const record = dmarcRecord(domain);
  const classify = (answer: DnsAnswer<string[]>): Finding => findDmarc(domain.domain, answer);
  const published = await lookUpPublished({ name: record.name, dns, serversOf, classify });
  if (published.finding.status !== 'missing') return publishedAs(record, published);
  const inherited = await inheritedDmarc(domain.domain, dns);
  return publishedAs(record, inherited ? { ...published, finding: inherited } : published);
}

/**
 * Returns the finding about an inherited policy. The record of the organizational domain, or of the public suffix above it, applies to a
 * domain without its own record (RFC 9989 §4.10.1).
 */
async function inheritedDmarc(domain: string, dns: Dns): Promise<Finding | undefined> {
  const applied = await appliedDmarc(domain, dns);
  if (applied === undefined) return undefined;
  if (applied === 'unknown') {
    const note = `There is no DMARC record at _dmarc.${domain}, and the DNS lookup of the domains above it failed. Try again in a few minutes.`;
    return { status: 'unknown', found: null, note };
  }
  const { publishedAt, record } = applied;
  return { status: 'verified', found: [record.text], note: `The policy of ${publishedAt} also applies to ${domain}.` };
}

async function lookUpReturnPath(domain: SenderDomain, lookUp: LookUpDeps): Promise<CheckedRecord | undefined> {
  const record = returnPathRecord(domain, lookUp);
  if (!record) return undefined;
  const finding = await findReturnPath(record, lookUp);
  const isPublished = finding.status === 'verified';
  return { record: { ...record, ...finding }, isEverywhere: isPublished, isSomewhere: isPublished };
}

/**
 * Checks the return path: a CNAME to the bounce domain or, if a CNAME is not possible, an MX to it and an SPF record
 * (docs/guides/domains.md).
 */
async function findReturnPath(record: DnsRecord, lookUp: LookUpDeps): Promise<Finding> {
  const { dns, sendingHost } = lookUp;
  const alias = findAlias(record, await dns.resolveCname(record.name));
  if (alias.status !== 'missing') return alias;
  const [own, ofBounceDomain] = await Promise.all([dns.resolveMx(record.name), dns.resolveMx(record.value)]);
  if (own.status === 'temporary' || ofBounceDomain.status === 'temporary')
    return {
      status: 'unknown',
      found: null,
      note: `The DNS lookup of ${record.name} failed. Try again in a few minutes.`,
    };
  if (own.status !== 'found') return alias;
  const bounceHosts = ofBounceDomain.status === 'found' ? ofBounceDomain.value.hosts.map(({ host }) => host) : [];
  const hosts = own.value.hosts.map(({ host }) => host);
  const found = hosts.map((host) => `MX ${host}`);
  if (!hosts.some((host) => bounceHosts.includes(host))) {
    const note = `The MX records of ${record.name} point elsewhere. Replace them with a CNAME to ${record.value}, or copy the MX records of that domain.`;
    return { status: 'different', found, note };
  }
  const spf = await lookUpSpf(record.name, { dns, sendingHost });
  if (spf.status === 'verified') return { status: 'verified', found, note: null };
  const note = `${record.name} has the MX records of ${record.value}. Also publish at ${record.name}, as its only SPF record: ${spf.value}`;
  return { status: spf.status === 'unknown' ? 'unknown' : 'different', found, note };
}

async function lookUpTls(expected: TlsRecord, { dns, serversOf = noServers }: LookUpDeps): Promise<CheckedRecord> {
  const { name, classify } = expected;
  return publishedAs(tlsRecord(expected), await lookUpPublished({ name, dns, serversOf, classify }));
}

/** Checks the tracking host. Links use the host only if this service responds there; a correct DNS record is not enough. */
async function lookUpTracking(domain: SenderDomain, lookUp: LookUpDeps): Promise<CheckedRecord | undefined> {
  const record = trackingRecord(domain, lookUp);
  if (!record) return undefined;
  const { dns, isServed, baseUrl } = lookUp;
  const finding = findAlias(record, await dns.resolveCname(record.name));
  const isPublished = finding.status === 'verified';
  const checked = { record: { ...record, ...finding }, isEverywhere: isPublished, isSomewhere: isPublished };
  if (!isPublished) return { ...checked, tracking: finding.status === 'unknown' ? undefined : null };
  const isServing = await isServed?.(trackingUrl(baseUrl, domain.domain)!.url);
  const tracking = isServing === undefined ? undefined : isServing ? 'served' : 'named';
  const note = trackingNote(domain, lookUp, tracking ?? domain.tracking ?? 'named');
  return { ...checked, record: { ...checked.record, note }, tracking };
}

function findAlias({ name, value }: DnsRecord, answer: DnsAnswer<string>): Finding {
  if (answer.status === 'temporary')
    return { status: 'unknown', found: null, note: `The DNS lookup of ${name} failed. Try again in a few minutes.` };
  if (answer.status !== 'found') return { status: 'missing', found: [], note: null };
  const target = answer.value.replace(/\.$/, '').toLowerCase();
  if (target === value.toLowerCase()) return { status: 'verified', found: [target], note: null };
  return { status: 'different', found: [target], note: `${name} points to ${target}; it must point to ${value}.` };
}
