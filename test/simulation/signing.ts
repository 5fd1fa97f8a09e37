/**
 * The DKIM records of the shop's domain in the simulated DNS: that of the RSA key from the start, that of the Ed25519 key from some time
 * on, until some time, or never, and those of the next keys after a rotation. The oracle checks that every signing selector has its record
 * in the DNS.
 */
import { type Answer, apiCall, isLater, untilDone } from './customers.ts';
import type { DnsWorld } from './dns.ts';
import { here } from './globals.ts';
import type { Copy } from './peers.ts';
import type { Down } from './process-lifetimes.ts';
import type { Random } from './random.ts';
import { SENDER_DOMAIN, type SigningKey, type Template } from './template.ts';

const HOUR_MS = 3_600_000;
const TTL_SECONDS = 300;
const MINUTE_MS = 60_000;
/** A key is looked up every hour, and a message prepared with it may wait for a few minutes. */
const FORGOTTEN_MS = HOUR_MS + 20 * MINUTE_MS;
const AWAKE_MINUTES = [62, 64, 70, 76];
/** Bytes of a string in a TXT record. */
const STRING_BYTES = 255;

interface Published {
  selector: string;
  fromMs: number;
  untilMs: number;
}

export interface Signing {
  readonly published: readonly Published[];
  /** The domain was verified by its records, so they are looked up every hour. */
  readonly isChecked: boolean;
  /** Creates new keys, and publishes their records after a while; if the call never succeeds, the current keys stay. */
  rotate(): Promise<void>;
}

function stringsOf(value: string): Buffer[] {
  const bytes = Buffer.from(value, 'latin1');
  const count = Math.ceil(bytes.length / STRING_BYTES);
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * STRING_BYTES, (at + 1) * STRING_BYTES));
}

export function startSigning(world: { dns: DnsWorld; random: Random; template: Template }): Signing {
  const { dns, random, template } = world;
  const published: Published[] = [];
  const publish = ({ selector, value }: SigningKey): Published => {
    const name = `${selector}._domainkey.${SENDER_DOMAIN}`;
    dns.set(name, [{ type: 'TXT', name, ttl: TTL_SECONDS, data: stringsOf(value) }]);
    const one = { selector, fromMs: here().timeline.nowMs, untilMs: Number.POSITIVE_INFINITY };
    published.push(one);
    return one;
  };
  const [rsa, ed] = template.signing as [SigningKey, SigningKey];
  publish(rsa);
  if (random.chance(0.6)) {
    const fromMs = random.chance(0.5) ? 1 : random.between(0, 3 * HOUR_MS);
    const untilMs = random.chance(0.4) ? fromMs + random.between(0, 6 * HOUR_MS) : undefined;
    dns.at(fromMs, () => {
      const one = publish(ed);
      if (untilMs === undefined) return;
      dns.at(untilMs - fromMs, () => {
        dns.set(`${ed.selector}._domainkey.${SENDER_DOMAIN}`, []);
        one.untilMs = here().timeline.nowMs;
        // Wakes the node when the record is looked up again: a scenario skips periods in which only timers fire.
        for (const minutes of AWAKE_MINUTES) dns.at(minutes * MINUTE_MS, () => undefined);
      });
    });
  }
  const { shop } = template.tenants;
  const ask = async (method: string, path: string): Promise<Answer | undefined> => {
    let answer: Answer | undefined;
    await untilDone(async () => {
      const one = await apiCall(shop, method, path, undefined);
      if (isLater(one.status)) return false;
      answer = one;
      return true;
    }, random);
    return answer;
  };
  return {
    published,
    isChecked: random.stream('checked').chance(0.75),
    rotate: async () => {
      const listed = await ask('GET', '/domains');
      if (listed?.status !== 200) return;
      const [{ domainId }] = JSON.parse(listed.body) as [{ domainId: string }];
      const rotated = await ask('POST', `/domains/${domainId}/rotate-keys`);
      if (rotated?.status !== 200) return;
      await here().timeline.wait(random.between(0, 2 * HOUR_MS));
      const { dnsRecords } = JSON.parse(rotated.body) as {
        dnsRecords: { purpose: string; name: string; value: string; keyState?: string }[];
      };
      for (const { purpose, name, value, keyState } of dnsRecords) {
        if (purpose === 'dkim' && keyState === 'next') publish({ selector: name.split('.')[0]!, value });
      }
    },
  };
}

interface SigningEvidence {
  copies: readonly Copy[];
  /** No DNS query is lost, and no clock is set. */
  isSteady: boolean;
  /** A node that is down looks nothing up. */
  downs: readonly Down[];
}

/** Returns messages without a signature, with the signature of another body, or with one whose record does not exist. */
export function signingFaults({ published }: Signing, { copies, isSteady, downs }: SigningEvidence): string[] {
  const forgottenMs = isSteady ? FORGOTTEN_MS : Number.POSITIVE_INFINITY;
  const upMs = (fromMs: number, untilMs: number): number =>
    downs.reduce(
      (left, down) => left - Math.max(0, Math.min(down.untilMs, untilMs) - Math.max(down.fromMs, fromMs)),
      untilMs - fromMs,
    );
  const isPublished = (selector: string, atMs: number): boolean =>
    published.some(
      (one) =>
        one.selector === selector &&
        one.fromMs <= atMs &&
        (atMs <= one.untilMs || upMs(one.untilMs, atMs) <= forgottenMs),
    );
  return copies.flatMap(({ subject, signatures, atMs }) => {
    const own = signatures.filter(({ domain }) => domain === SENDER_DOMAIN);
    if (signatures.length === 0) return [`${subject} came without a signature`];
    if (signatures.some(({ isOfBody }) => !isOfBody)) return [`${subject} came with the signature of another body`];
    const unknown = own.filter(({ selector }) => !isPublished(selector, atMs));
    return unknown.map(({ selector }) => `${subject} is signed by ${selector}, which is not in the DNS`);
  });
}
