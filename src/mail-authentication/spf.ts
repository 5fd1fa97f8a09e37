/**
 * Evaluates SPF (RFC 7208): whether a host may send mail with this envelope sender, or with this HELO name if the sender is empty (§2.4).
 * At most ten terms and `%{p}` macros query the DNS, at most two queries may find nothing, and at most ten addresses of MX hosts and ten
 * names of the client are looked up for one term (§4.6.4). Explanations (`exp`) are not fetched. Internationalized domains are evaluated as
 * A-labels (RFC 8616).
 */
import { reverseName } from '../net/dns-name.ts';
import { isPartOf, mappedNetwork, type Network, networkText, parseNetwork } from '../net/networks.ts';
import {
  comparableDomain,
  failedQuery,
  isDomain,
  isSameOrBelow,
  type QueryType,
  type Resolve,
  toALabels,
  withMemory,
} from './dns-query.ts';
import { expandMacros, isQueryName, type MacroPart, type MacroValues, queryName, usesLetter } from './spf-macro.ts';
import { isSpfRecord, type Mechanism, parseSpfRecord, type Qualifier } from './spf-record.ts';

export interface SpfInput {
  /** Address of the client. */
  address: string;
  helo: string;
  /** Empty for the null sender. */
  envelopeFrom: string;
}

export interface SpfResult {
  result: 'none' | 'neutral' | 'pass' | 'fail' | 'softfail' | 'temperror' | 'permerror';
  /** The domain that was checked, in A-labels. */
  domain: string;
  reason: string | undefined;
}

/** A result of the RFC's check_host function. */
interface Outcome {
  result: SpfResult['result'];
  /** Explanation of an error. */
  text?: string;
}

/** Ends the evaluation. */
interface Stop {
  stop: Outcome;
}

const MAX_LOOKUPS = 10;
const MAX_VOID_LOOKUPS = 2;
const MAX_HOSTS = 10;
const RESULTS: Record<Qualifier, SpfResult['result']> = { '+': 'pass', '-': 'fail', '~': 'softfail', '?': 'neutral' };

const stop = (result: 'temperror' | 'permerror', text: string): Stop => ({ stop: { result, text } });
const isStop = (value: unknown): value is Stop => typeof value === 'object' && value !== null && 'stop' in value;

/** Evaluates SPF; never rejects. */
export async function checkSpf({ address, helo, envelopeFrom }: SpfInput, resolve: Resolve): Promise<SpfResult> {
  const sender = senderOf(envelopeFrom, helo);
  const at = sender.lastIndexOf('@');
  const domain =
    toALabels(
      sender
        .slice(at + 1)
        .trim()
        .toLowerCase(),
    ) || '-';
  const network = parseNetwork(address.replace(/%.*$/, ''));
  if (!network) return { result: 'temperror', domain, reason: `${address} is not an IP address` };
  const client = mappedNetwork(network) ?? network;
  const evaluation = new Evaluation(client, { local: sender.slice(0, at), domain, helo }, withMemory(resolve));
  // §4.3. A name that can only be queried with other characters could be taken for another name.
  const outcome = isDomain(domain)
    ? await evaluation.checkHost(domain)
    : { result: 'none' as const, text: `Invalid domain ${domain}` };
  return { result: outcome.result, domain, reason: reasonOf(outcome, { sender, domain, address: hostText(client) }) };
}

/** Returns the address whose domain is checked (§2.4, §4.3). */
function senderOf(envelopeFrom: string, helo: string): string {
  if (envelopeFrom === '') return `postmaster@${helo}`;
  const at = envelopeFrom.lastIndexOf('@');
  if (at > 0) return envelopeFrom;
  return at === 0 ? `postmaster${envelopeFrom}` : `postmaster@${envelopeFrom}`;
}

function reasonOf(
  { result, text }: Outcome,
  { sender, domain, address }: { sender: string; domain: string; address: string },
): string | undefined {
  const detail = text === undefined ? '' : `: ${text}`;
  switch (result) {
    case 'pass':
      return undefined;
    case 'fail':
      return `domain of ${sender} does not designate ${address} as permitted sender`;
    case 'softfail':
      return `domain of transitioning ${sender} does not designate ${address} as permitted sender`;
    case 'neutral':
      return `${address} is neither permitted nor denied by domain of ${sender}`;
    case 'none':
      return `${domain} does not designate permitted sender hosts`;
    case 'permerror':
      return `permanent error in processing during lookup of ${sender}${detail}`;
    case 'temperror':
      return `error in processing during lookup of ${sender}${detail}`;
  }
}

function hostText(network: Network): string {
  return networkText(network).split('/')[0]!;
}

class Evaluation {
  readonly #client: Network;
  readonly #sender: { local: string; domain: string; helo: string };
  readonly #resolve: Resolve;
  readonly #addressType: 'A' | 'AAAA';
  #lookups = 0;
  #voidLookups = 0;

  constructor(client: Network, sender: { local: string; domain: string; helo: string }, resolve: Resolve) {
    this.#client = client;
    this.#sender = sender;
    this.#resolve = resolve;
    this.#addressType = client.family === 'ipv4' ? 'A' : 'AAAA';
  }

  /** The check_host function (§4). Its first call does not count as a lookup. */
  async checkHost(domain: string): Promise<Outcome> {
    const answer = await this.#resolve(domain, 'TXT');
    if (answer.status === 'temporary') return { result: 'temperror', text: failedQuery(domain, 'TXT', answer.cause) };
    const texts = answer.status === 'found' ? answer.value.filter(isSpfRecord) : [];
    if (texts[0] === undefined) return { result: 'none' };
    if (texts.length > 1) return { result: 'permerror', text: `multiple SPF records found for ${domain}` };
    const record = parseSpfRecord(texts[0]);
    if (typeof record === 'string') return { result: 'permerror', text: record };
    for (const { qualifier, mechanism } of record.directives) {
      const matches = await this.#matches(mechanism, domain);
      if (isStop(matches)) return matches.stop;
      if (matches) return { result: RESULTS[qualifier] };
    }
    return record.redirect ? this.#redirect(record.redirect, domain) : { result: 'neutral' };
  }

  /** §6.1. */
  async #redirect(spec: MacroPart[], domain: string): Promise<Outcome> {
    const target = await this.#target(spec, domain);
    if (isStop(target)) return target.stop;
    if (target === undefined) return { result: 'permerror', text: 'Invalid redirect target' };
    const outcome = await this.#checkOther(target);
    return outcome.result === 'none' ? { result: 'permerror', text: `no SPF records found for ${target}` } : outcome;
  }

  /** Evaluates the record of another domain, which counts as a lookup. */
  async #checkOther(domain: string): Promise<Outcome> {
    const answer = await this.#query(domain, 'TXT');
    return isStop(answer) ? answer.stop : this.checkHost(domain);
  }

  async #matches(mechanism: Mechanism, domain: string): Promise<boolean | Stop> {
    switch (mechanism.kind) {
      case 'all':
        return true;
      case 'network':
        return isPartOf(this.#client, mechanism.network);
      case 'include':
        return this.#includes(mechanism.spec, domain);
      default:
    }
    const target = mechanism.spec === undefined ? domain : await this.#target(mechanism.spec, domain);
    if (target === undefined || isStop(target)) return target ?? false;
    switch (mechanism.kind) {
      case 'a':
        return this.#isAmong(await this.#query(target, this.#addressType), mechanism.bits);
      case 'mx':
        return this.#isMxHost(target, mechanism.bits);
      case 'exists': {
        const addresses = await this.#query(target, 'A');
        return isStop(addresses) ? addresses : addresses.length > 0;
      }
      case 'ptr':
        return this.#isNamed(target);
    }
  }

  /** §5.2. */
  async #includes(spec: MacroPart[], domain: string): Promise<boolean | Stop> {
    const target = await this.#target(spec, domain);
    if (isStop(target)) return target;
    if (target === undefined)
      return this.#hasUnusableLocalPart(spec) ? false : stop('permerror', 'Invalid include target');
    const { result, text } = await this.#checkOther(target);
    if (result === 'none') return stop('permerror', `no SPF records found for ${target}`);
    if (result === 'permerror' || result === 'temperror')
      return { stop: { result, ...(text !== undefined && { text }) } };
    return result === 'pass';
  }

  #isAmong(addresses: string[] | Stop, bits: { ipv4: number; ipv6: number }): boolean | Stop {
    if (isStop(addresses)) return addresses;
    return addresses.some((address) => {
      const network = parseNetwork(address);
      return network !== undefined && isPartOf(this.#client, { ...network, bits: bits[network.family] });
    });
  }

  /** §5.4. */
  async #isMxHost(target: string, bits: { ipv4: number; ipv6: number }): Promise<boolean | Stop> {
    const hosts = await this.#query(target, 'MX');
    if (isStop(hosts)) return hosts;
    for (const [index, host] of hosts.filter(isQueryName).entries()) {
      if (index === MAX_HOSTS) return stop('permerror', `more than ${MAX_HOSTS} MX hosts at ${target}`);
      const answer = await this.#resolve(host, this.#addressType);
      if (answer.status === 'temporary') return stop('temperror', failedQuery(host, this.#addressType, answer.cause));
      if (answer.status === 'found' && this.#isAmong(answer.value, bits) === true) return true;
    }
    return false;
  }

  /** §5.5. */
  async #isNamed(target: string): Promise<boolean | Stop> {
    const names = await this.#validatedNames();
    if (isStop(names)) return names;
    return names.some((name) => isSameOrBelow(name, comparableDomain(target)));
  }

  /** Returns the names of the client whose addresses include it; failed lookups find none. */
  async #validatedNames(): Promise<string[] | Stop> {
    const found = await this.#query(hostText(this.#client), 'PTR');
    if (isStop(found)) return found.stop.result === 'temperror' ? [] : found;
    const names = found.map(comparableDomain).filter(isDomain).slice(0, MAX_HOSTS);
    const exact = { ipv4: 32, ipv6: 128 };
    const isValid = await Promise.all(
      names.map(async (name) => {
        const answer = await this.#resolve(name, this.#addressType);
        return answer.status === 'found' && this.#isAmong(answer.value, exact) === true;
      }),
    );
    return names.filter((_, index) => isValid[index]);
  }

  /** Makes a query that counts toward the limits (§4.6.4); returns no records for a void lookup. */
  async #query(name: string, type: QueryType): Promise<string[] | Stop> {
    this.#lookups += 1;
    if (this.#lookups > MAX_LOOKUPS) return stop('permerror', 'Too many DNS requests');
    const answer = await this.#resolve(name, type);
    if (answer.status === 'temporary') return stop('temperror', failedQuery(name, type, answer.cause));
    if (answer.status === 'found') return answer.value;
    this.#voidLookups += 1;
    return this.#voidLookups > MAX_VOID_LOOKUPS ? stop('permerror', 'Too many void DNS results') : [];
  }

  /** Returns the name that a domain-spec stands for; undefined if it cannot be queried. */
  async #target(spec: MacroPart[], domain: string): Promise<string | undefined | Stop> {
    if (this.#hasUnusableLocalPart(spec)) return undefined;
    const names = usesLetter(spec, 'p') ? await this.#validatedNames() : [];
    if (isStop(names)) return names;
    const expanded = expandMacros(spec, this.#macroValues(domain, names));
    if (expanded === undefined) return undefined;
    const name = queryName(toALabels(expanded));
    return isQueryName(name) ? name : undefined;
  }

  /** RFC 8616 §4: a term with a local part that is not ASCII does not match. */
  #hasUnusableLocalPart(spec: MacroPart[]): boolean {
    return usesLetter(spec, 'sl') && /[^\0-\x7f]/.test(this.#sender.local);
  }

  /** §7.2. */
  #macroValues(domain: string, names: string[]): MacroValues {
    const { local, domain: senderDomain, helo } = this.#sender;
    const address = hostText(this.#client);
    const ownName =
      names.find((name) => name === domain) ?? names.find((name) => isSameOrBelow(name, domain)) ?? names[0];
    return {
      s: `${local}@${senderDomain}`,
      l: local,
      o: senderDomain,
      d: domain,
      i: this.#client.family === 'ipv4' ? address : nibbles(address),
      p: ownName ?? 'unknown',
      v: this.#client.family === 'ipv4' ? 'in-addr' : 'ip6',
      h: helo === '' ? `[${address}]` : helo,
    };
  }
}

/** Returns the 32 hexadecimal digits of an IPv6 address, separated by dots. */
function nibbles(address: string): string {
  return reverseName(address)!.split('.').slice(0, 32).reverse().join('.');
}
