/**
 * Checks the records of verified domains every hour, and emails the owners of an account if one is missing: sending from the domain stops a
 * day later. Keys that have signed for 180 days are replaced, and retired keys are deleted. If several processes share a database, one of
 * them does this; work it cannot finish continues a minute later.
 */
import { CLOCK_TOLERANCE_MS, type Clock } from '../base/clock.ts';
import { Unavailable } from '../base/failure.ts';
import type { Log } from '../base/log.ts';
import type { Notice, NoticePart, Notify } from '../base/notice.ts';
import { type Rounds, startRounds } from '../base/rounds.ts';
import type { Dns } from '../net/dns.ts';
import type { Database } from '../storage/database.ts';
import {
  type DomainNotice,
  domainNoticesOperation,
  dueChecksOperation,
  dueRotationsOperation,
  noticeGivenOperation,
  removeRetiredKeysOperation,
} from './check-store.ts';
import type { RecordSettings } from './dns-records.ts';
import { isDeciding, RETIRED_KEPT_MS, SENDS_WHILE_FAILING_MS, type SenderDomain } from './store.ts';
import type { IsServed } from './tracking-hosts.ts';
import { rotateKeys, verifyDomain } from './verify.ts';
import { zoneServers } from './zone-servers.ts';

const ROUND_MS = 60_000;
const CHECK_EVERY_MS = 3_600_000;
const ROTATE_AFTER_MS = 180 * 86_400_000;
const BATCH = 100;
/** Domains that are looked at side by side. */
const AT_ONCE = 10;

export interface DomainChecksOptions extends RecordSettings {
  database: Database;
  clock: Clock;
  log: Log;
  secretKey: Uint8Array;
  /** Returns a resolver with an empty cache. Closed after use. */
  freshDns(): Dns;
  isServed?: IsServed;
  notify: Notify;
  /** Whether this process is responsible for the checks. */
  isChosen?: () => boolean;
  roundMs?: number;
}

export function startDomainChecks(options: DomainChecksOptions): Rounds {
  const { log, isChosen = () => true, roundMs = ROUND_MS } = options;
  return startRounds({
    name: 'checks of domains',
    everyMs: roundMs,
    log,
    round: async (isStopping) => {
      if (!isChosen()) return;
      await checkDue(options, isStopping);
      await rotateDue(options, isStopping);
      await sendDueNotices(options);
    },
  });
}

async function checkDue(options: DomainChecksOptions, isStopping: () => boolean): Promise<void> {
  const { database, clock, sendingHost, bounceDomain, baseUrl, isServed } = options;
  const beforeMs = clock.now() - CHECK_EVERY_MS;
  for (;;) {
    // The checks of a long round are not in the future.
    const aheadMs = clock.now() + CLOCK_TOLERANCE_MS;
    const due = await database.execute(dueChecksOperation, { beforeMs, aheadMs, limit: BATCH });
    const dns = options.freshDns();
    const lookUp = { dns, serversOf: zoneServers(dns), sendingHost, bounceDomain, baseUrl, isServed };
    try {
      for (let at = 0; at < due.length && !isStopping(); at += AT_ONCE) {
        const some = due.slice(at, at + AT_ONCE);
        await Promise.all(some.map((domain) => verifyDomain({ database, clock, ...lookUp }, domain)));
      }
    } finally {
      dns.close();
    }
    if (due.length < BATCH || isStopping()) return;
  }
}

async function rotateDue(options: DomainChecksOptions, isStopping: () => boolean): Promise<void> {
  const { database, clock, secretKey } = options;
  const nowMs = clock.now();
  await database.execute(removeRetiredKeysOperation, nowMs - RETIRED_KEPT_MS);
  const due = await database.execute(dueRotationsOperation, { beforeMs: nowMs - ROTATE_AFTER_MS, limit: BATCH });
  for (const domain of due) {
    if (isStopping()) return;
    await rotateKeys({ database, clock, secretKey, isNoticed: true }, domain);
  }
}

async function sendDueNotices({ database, log, notify }: DomainChecksOptions): Promise<void> {
  for (const notice of await database.execute(domainNoticesOperation, BATCH)) {
    const { kind, domain } = notice;
    try {
      await notify(noticeOf(notice));
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      log.warn({ domain: domain.domain, error: (error as Error).message }, 'account notification failed');
      continue;
    }
    await database.execute(noticeGivenOperation, { id: domain.id, kind });
  }
}

function noticeOf({ kind, domain }: DomainNotice): Notice {
  return kind === 'failing' ? failingNotice(domain) : rotationNotice(domain);
}

function nameOf({ domain }: SenderDomain, selector: string): string {
  return `${selector}._domainkey.${domain}`;
}

function recordFacts(name: string, value: string): NoticePart {
  return {
    facts: [
      ['Name', name],
      ['Type', 'TXT'],
      ['Value', value],
    ],
  };
}

function failingNotice(domain: SenderDomain): Notice {
  const sinceMs = domain.failingSince ?? domain.createdAt;
  const key = domain.keys.find(isDeciding);
  return {
    accountId: domain.accountId,
    kind: 'domains',
    key: `${domain.id}:failing:${sinceMs}`,
    subject: `DKIM record missing for ${domain.domain}`,
    parts: [
      `The DKIM record of ${domain.domain} is missing from the DNS or has a different value. Without it, receiving servers cannot verify the DKIM signature of email from the domain.`,
      {
        facts: [
          ['Domain', `${domain.domain} (${domain.id})`],
          ['Since', { atMs: sinceMs }],
          ['Deadline', { atMs: sinceMs + SENDS_WHILE_FAILING_MS, note: 'then Postrider rejects live email from it' }],
        ],
      },
      'Publish this record again:',
      recordFacts(nameOf(domain, key?.selector ?? ''), key?.publicKey ?? ''),
      `Postrider checks the record every hour. To check it now, verify the domain in the portal, or call POST /domains/${domain.id}/verify.`,
    ],
  };
}

function rotationNotice(domain: SenderDomain): Notice {
  const keys = domain.keys.filter(({ state }) => state === 'next');
  return {
    accountId: domain.accountId,
    kind: 'domains',
    key: `${domain.id}:rotation:${keys[0]?.selector ?? ''}`,
    subject: `New DKIM keys for ${domain.domain}`,
    parts: [
      `The DKIM keys of ${domain.domain} have been in use for 180 days, and new keys are ready. Add these records, and keep the existing ones:`,
      ...keys.map(({ selector, publicKey }) => recordFacts(nameOf(domain, selector), publicKey)),
      'Postrider signs with the new keys once every name server of the zone has returned the first record for an hour. Until then the current keys keep signing.',
      `The domain page in the portal and GET /domains/${domain.id}/dns-records show when you can delete the old records.`,
    ],
  };
}
