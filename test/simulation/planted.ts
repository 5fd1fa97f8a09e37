/**
 * Intentional bugs, each a small change to one source file, applied while the file is loaded: they prove that the simulation detects what
 * it should. A change that does not match exactly one place fails, so that none becomes outdated.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import { registerHooks } from 'node:module';
import { PLANTED_CUSTOMERS } from './planted-customers.ts';
import { PLANTED_DISK } from './planted-disk.ts';
import { PLANTED_NODES } from './planted-nodes.ts';
import { PLANTED_OMISSIONS } from './planted-omissions.ts';
import { PLANTED_OVERLAPPING } from './planted-overlapping.ts';
import { PLANTED_READERS } from './planted-readers.ts';
import { PLANTED_REPLIES } from './planted-replies.ts';
import { PLANTED_SCHEDULES } from './planted-schedules.ts';
import { PLANTED_STORAGE } from './planted-storage.ts';
import { placePattern, placesOf } from './source-place.ts';

export interface Planted {
  /** Path below src/. */
  file: string;
  find: string;
  replace: string;
  /** Another change that the bug needs. */
  also?: Omit<Planted, 'also' | 'finds'>;
  /** The failures that reveal it; any by default. */
  finds?: RegExp;
}

export const PLANTED: Readonly<Record<string, Planted>> = {
  ...PLANTED_STORAGE,
  ...PLANTED_OMISSIONS,
  ...PLANTED_DISK,
  ...PLANTED_SCHEDULES,
  ...PLANTED_READERS,
  ...PLANTED_CUSTOMERS,
  ...PLANTED_REPLIES,
  'delivered before the reply to the final dot': {
    file: 'net/smtp-transaction.ts',
    find: "const accepted = stage === 'dot' && isPositive(reply);",
    replace: "const accepted = stage === 'dot' && (reply === undefined || isPositive(reply));",
    also: {
      file: 'net/smtp-transaction.ts',
      find: 'const rest = accepted && reply ? { accepted, stage, reply }',
      replace: 'const rest = accepted ? { accepted, stage, reply: reply! }',
    },
    finds: /is delivered, and nobody took it/,
  },
  'a temporary rejection counts as permanent': {
    file: 'delivery/outcome/outcome.ts',
    find: "if (reply.code < 500 || stage === 'reset' || isPassing) {",
    replace: 'if (reply.code < 450) {',
    finds: /bounced, and nobody refused it/,
  },
  'a deferral suppresses the address': {
    file: 'delivery/record/results.ts',
    find: '  if (!suppress) return null;\n',
    replace: '',
    finds: /is suppressed without a reason/,
  },
  'requireTls mail is sent unencrypted': {
    file: 'delivery/attempt/transmit.ts',
    find: 'tls: message.requireTls ?? false',
    replace: 'tls: false',
    also: {
      file: 'net/smtp-transaction.ts',
      find: 'if (message.requireTls && connection.tls === undefined) {',
      replace: 'if (message.requireTls && message.sizeBytes === 0) {',
    },
    finds: /asks for TLS and came in the clear/,
  },
  'the idempotency record is not stored': {
    file: 'send/acceptance.ts',
    find: 'insertMany(tx, IDEMPOTENCY, rows.records),',
    replace: '',
    finds: /^key .* messages to/,
  },
  'the idempotency key of SMTP submission is ignored': {
    file: 'send/submit.ts',
    find: 'if (key !== undefined) return keyed(submission, outcome, key);',
    replace: 'if (key !== undefined && key.length > 50) return keyed(submission, outcome, key);',
    finds: /^key .* messages to/,
  },
  'a pause does not halve the connection limit': {
    file: 'delivery/destinations/registry.ts',
    find: 'if (!record.pause) record.limit = Math.max(1, record.limit / 2);',
    replace: 'if (!record.pause) record.limit = Math.max(1, record.limit);',
    finds: /connections at once, of/,
  },
  'a connection limit named by a server is forgotten': {
    file: 'delivery/destinations/registry.ts',
    find: 'if (!learned) return Math.min(limit, ceiling);',
    replace: 'if (learned !== null) return Math.min(limit, ceiling);',
    finds: /connections away in a minute/,
  },
  'the event of a status change is not written': {
    file: 'delivery/record/results.ts',
    find: "event = { id: newId('evt', nowMs), type: 'Bounce', detail: { bounce: failureDetail(outcome, host) } };",
    replace: 'event = null;',
    finds: / with events /,
  },
  'every delay is reported': {
    file: 'delivery/record/results.ts',
    find: "} else if (job.status !== 'delayed') {",
    replace: '} else {',
    finds: /delayed twice in the log/,
  },
  'messages never expire': {
    file: 'delivery/record/results.ts',
    find: 'if (nowMs >= expiresAtMs) return undefined;',
    replace: 'if (nowMs >= expiresAtMs + 30 * 86_400_000) return undefined;',
    also: {
      file: 'delivery/record/results.ts',
      find: 'return Math.min(nowMs + jitter(delayMs, random), expiresAtMs);',
      replace: 'return nowMs + jitter(delayMs, random);',
    },
    finds: /was put off for|not come to its end/,
  },
  'a failed webhook request counts as a success': {
    file: 'webhooks/attempt.ts',
    find: 'outcome.ok && outcome.status >= 200 && outcome.status < 300;',
    replace: 'outcome.ok && outcome.status >= 200 && outcome.status < 600;',
    finds: /never came to its endpoint/,
  },
  'an endpoint that times out is not retried': {
    file: 'webhooks/attempt.ts',
    find: 'if (outcome.ok && outcome.status === 410)',
    replace: 'if (!outcome.ok || outcome.status === 410)',
    finds: /was given up after/,
  },
  'the webhook-id changes with each attempt': {
    file: 'webhooks/sign.ts',
    find: "'webhook-id': event.id,",
    replace: "'webhook-id': `${event.id}.${Math.random()}`,",
    finds: /came under \d+ ids/,
  },
  'the Message-ID changes with each attempt': {
    file: 'delivery/attempt/transmit.ts',
    find: "const head = Buffer.from(`${received}${signed}`, 'latin1');",
    replace:
      "const head = Buffer.from(`Message-ID: <${Math.random()}@changed.example>\\r\\n${received}${signed}`, 'latin1');",
    finds: /copies differ in Message-ID|there is no such message/,
  },
  'work of a dead process is never taken over': {
    file: 'work/store.ts',
    find: '`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);',
    replace:
      '`UPDATE work SET leased = 1, due = ? + 2592000000, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);',
    finds: /is not taken over|not come to its end/,
  },
  'one crash makes a dead letter': {
    file: 'work/store.ts',
    find: 'export const DEAD_LETTER_AFTER_CRASHES = 3;',
    replace: 'export const DEAD_LETTER_AFTER_CRASHES = 1;',
    finds: /bounced, and nobody refused it/,
  },
  'results are lost when they are recorded': {
    file: 'delivery/record/settle.ts',
    find: "againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) : null,",
    replace: "againAtMs: one.to === 'delayed' || one.attempts > 1 ? (one.nextAttemptAtMs ?? one.atMs + 60_000) : null,",
    finds: /another copy after|rows of work are left|could not be recorded/,
  },
  'a graceful stop does not wait for replies to the final dot': {
    file: 'delivery/worker.ts',
    find: 'setTimeout(() => connections.cutBeforeDots(), Math.min(STOP_DOTS_MS, graceMs));',
    replace: 'setTimeout(() => connections.destroyAll(), 0);',
    finds: /another copy after/,
  },
  'a suppressed address receives mail': {
    file: 'send/acceptance.ts',
    find: 'isSuppressed: (address) => suppressed(address) > realNowMs(call),',
    replace: 'isSuppressed: () => false,',
    also: {
      file: 'delivery/record/results.ts',
      find: '    if (item.job.suppressed) return this.suppressed(item);\n',
      replace: '',
    },
    finds: /, which is suppressed/,
  },
  'scheduled mail is sent immediately': {
    file: 'send/acceptance.ts',
    find: 'const dueMs = isSuppressed ? null : (sendAtMs ?? nowMs);',
    replace: 'const dueMs = isSuppressed ? null : nowMs;',
    finds: /came before its time/,
  },
  'mail is canceled while it is being delivered': {
    file: 'messages/api-store.ts',
    find: "    if ((found.leased ?? 0) > 0) return { changed: false, reason: 'state', status: 'sending' };\n    const { accountId, mode, messageId } = cancellation;",
    replace: '    const { accountId, mode, messageId } = cancellation;',
    also: {
      file: 'messages/api-store.ts',
      find: "'DELETE FROM work WHERE seq = ? AND leased = 0'",
      replace: "'DELETE FROM work WHERE seq = ?'",
    },
    finds: /was cancelled, and/,
  },
  'a failed storage operation counts as recorded': {
    file: 'work/settler.ts',
    find: 'if (error instanceof Unavailable) return batch;',
    replace: 'if (error instanceof Unavailable) { this.#deps.onDone(batch.map((one) => one.seq)); return []; }',
    finds: /another copy after/,
  },
  'a clock change expires messages without an attempt': {
    file: 'delivery/record/results.ts',
    find: '    if (item.job.suppressed) return this.suppressed(item);\n',
    replace:
      '    if (item.job.suppressed) return this.suppressed(item);\n    if (this.nowOf(item) > item.job.expiresAt) return this.of(item, { outcome: deadLettered(), facts: null });\n',
    finds: /expired by a clock that was set|bounced, and nobody refused it/,
  },
  'a server that asks for a pause gets none': {
    file: 'delivery/outcome/pause.ts',
    find: '  if (asks) return { ms: hint };\n',
    replace: '  return undefined;\n',
    finds: /a connection in the .* it asked for/,
  },
  'a pause ends early': {
    file: 'delivery/destinations/registry.ts',
    find: 'return pause !== undefined && nowMs < pause.untilMs && nowMs >= pause.beganMs;',
    replace: 'return pause !== undefined && nowMs < pause.beganMs + 10_000 && nowMs >= pause.beganMs;',
    finds: /a connection in the .* it asked for/,
  },
  'a pause ends with many connections at once': {
    file: 'delivery/destinations/registry.ts',
    find: 'if (destination.pause) return active < 1 && (this.#deps.probes?.isPermitted(key) ?? true);',
    replace: 'if (destination.pause) return active < limit;',
    finds: /connections at once/,
  },
  'a tenant waits behind the backlog of another': {
    file: 'delivery/queue/waiting-mail.ts',
    find: 'return { account: accountOfLane(lane), lane };',
    replace: "return { account: '', lane: '' };",
    finds: /for another tenant/,
  },
  'one slow server delays all others': {
    file: 'delivery/queue/schedule.ts',
    find: '    if (this.#active >= this.#slots) return undefined;',
    replace: '    if (this.#active >= 1) return undefined;',
    finds: /for another tenant/,
  },
  'inbound mail is acknowledged before it is stored': {
    file: 'smtp/inbound.ts',
    find: '      await port.store(mails);',
    replace: '      setTimeout(() => void port.store(mails).catch(() => undefined), 500);',
    finds: /that got 250 has no event|got 250 \d+ times/,
  },
  'a report that arrives twice counts twice': {
    file: 'messages/late-store.ts',
    find: "  if (has.has(isProven ? PROVEN_COMPLAINT : type)) return 'repeated';\n",
    replace: '',
    finds: /has \d+ late events/,
  },
  'a late bounce does not suppress': {
    file: 'delivery/record/reported.ts',
    find: '    suppress: outcome.suppress\n',
    replace: '    suppress: outcome.suppress && !isFinal\n',
    finds: /is not suppressed after a bounce/,
  },
  'a bounce without a token is accepted': {
    file: 'inbound/report-handlers.ts',
    find: "    if (!claim) return ignored('unproven');",
    replace:
      '    if (!claim) return resultsOfBounce(report, await deps.database.execute(findSentOperation, { headerMessageId: report.mail.messageId! }), clock.now());',
    finds: /has a late Bounce that nobody reported/,
  },
  'a forged return-path token is accepted': {
    file: 'mail/token-address.ts',
    find: 'if (!isShaped || !isOurs) return undefined;',
    replace: 'if (!isShaped) return undefined;',
    finds: /an address that is nobody's/,
  },
  'return-path tokens never expire': {
    file: 'mail/token-address.ts',
    find: 'if (age > LIFE_DAYS[use] || age < -AHEAD_DAYS) return undefined;',
    replace: 'if (age < -AHEAD_DAYS) return undefined;',
    finds: /an address that is nobody's/,
  },
  'the day in a return-path token is not authenticated': {
    file: 'mail/token-address.ts',
    find: "createHmac('sha256', keys[use]).update(claim).digest()",
    replace: "createHmac('sha256', keys[use]).update(claim.subarray(0, ID_BYTES)).digest()",
    finds: /an address that is nobody's/,
  },
  'a "relayed" report counts as a delay': {
    file: 'inbound/report-results.ts',
    find: "if (recipient.action !== 'failed' && recipient.action !== 'delayed') {",
    replace: "if (recipient.action === 'delivered') {",
    finds: /has a late DeliveryDelay that nobody reported/,
  },
  'sandbox mail is delivered': {
    file: 'delivery/worker.ts',
    find: "      if (job.mode === 'sandbox') return deliveryItemOf(",
    replace: "      if (job.mode === 'sandbox' && job.attempts < 0) return deliveryItemOf(",
    also: {
      file: 'delivery/attempt/attempt.ts',
      find: "if (job.mode === 'sandbox') return unsent(",
      replace: 'if (job.attempts < 0) return unsent(',
    },
    finds: /left the sandbox/,
  },
  'a repeated batch sends its accepted messages again': {
    file: 'send/batch.ts',
    find: '          key: idempotency.key,\n          bytes:',
    replace: '          key: `${idempotency.key}${Math.random()}`,\n          bytes:',
    also: {
      file: 'send/batch.ts',
      find: 'if (isFinal && hasAccepted) {',
      replace: 'if (isFinal && hasAccepted && nowMs === 0) {',
    },
    finds: /^key .* messages to/,
  },
  'DANE accepts any certificate': {
    file: 'tls-policy/dane.ts',
    find: 'if (usable.some((record) => record.usage === 3 && matches(record, leaf))) return undefined;',
    replace: 'if (usable.some((record) => record.usage === 3)) return undefined;',
    finds: /whose TLSA records are/,
  },
  'unavailable TLSA records count as none': {
    file: 'tls-policy/dane.ts',
    find: "if (tlsa.status === 'temporary') return { kind: 'failed', name, cause: tlsa.cause };",
    replace: "if (tlsa.status === 'temporary') return NONE;",
    finds: /whose TLSA records are|which has DANE/,
  },
  'a failing MTA-STS host removes the policy': {
    file: 'tls-policy/mta-sts-cache.ts',
    find: 'return renewed ? answer(renewed) : answer(current, failures',
    replace: 'return renewed ? answer(renewed) : answer(undefined, failures',
    also: {
      file: 'tls-policy/mta-sts-cache.ts',
      find: 'return answer(current, failed.failure);',
      replace: 'return answer(undefined, failed.failure);',
    },
    finds: /asks for TLS without it|applied opportunistic, of mta-sts/,
  },
  'any response of an MTA-STS host is a policy': {
    file: 'tls-policy/mta-sts-fetch.ts',
    find: 'if (got.status !== 200)',
    replace: 'if (got.status < 200)',
    finds: /asks for TLS without it|applied .*, of mta-sts|applied mta-sts/,
  },
  'a cached MTA-STS policy is forgotten': {
    file: 'tls-policy/mta-sts-cache.ts',
    find: 'return row && row.expiresAt > clock.now() ? row : undefined;',
    replace: 'return row && row.expiresAt < clock.now() ? row : undefined;',
    finds: /asks for TLS without it|applied opportunistic, of mta-sts/,
  },
};

export interface PlantedBug {
  /** Matches the failures that reveal it. */
  finds: RegExp;
  /** Modules that are loaded afterwards do not have it. */
  remove(): void;
}

/** Plants the bug in modules that are loaded from now on. */
export function plant(name: string): PlantedBug {
  const bug = PLANTED[name] ?? PLANTED_NODES[name] ?? PLANTED_OVERLAPPING[name];
  if (bug === undefined) throw new Error(`no planted bug is called "${name}"`);
  const remove = change(name, bug.also === undefined ? [bug] : [bug, bug.also]);
  return { finds: bug.finds ?? /./, remove };
}

/**
 * Lowers limits that a scenario is too small to reach: uploads to S3 have parts of 64 KB, and few events wait in memory for an endpoint.
 */
export function makeLimitsSmall(): void {
  const find = 'export const PART_BYTES = 16 * 1024 * 1024;';
  const replace = 'export const PART_BYTES = 64 * 1024;';
  const lanes = { find: '  window: 1_500,\n  slowWindow: 60,', replace: '  window: 3,\n  slowWindow: 2,' };
  change('small limits', [
    { file: 'storage/blobs/s3-multipart.ts', find, replace },
    { file: 'webhooks/lanes.ts', ...lanes },
  ]);
}

/** Returns a function that ends the change. */
function change(name: string, changes: readonly Planted[]): () => void {
  const hooks = registerHooks({
    load: (url, context, next) => {
      const loaded = next(url, context);
      const [file] = url.split('?');
      const own = changes.filter((one) => file!.endsWith(`/src/${one.file}`));
      if (own.length === 0) return loaded;
      let source = String(loaded.source);
      for (const { file, find, replace } of own) {
        if (placesOf(source, find) !== 1) throw new Error(`"${name}" finds its place in ${file} not exactly once`);
        source = source.replace(placePattern(find), () => replace);
      }
      return { ...loaded, source };
    },
  });
  return () => hooks.deregister();
}
