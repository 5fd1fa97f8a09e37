/** Planted bugs of retry schedules: attempts that come early or late, or that advance the schedule without a record. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_SCHEDULES: Readonly<Record<string, Planted>> = {
  'an attempt cut off by a crash advances the retry schedule': {
    file: 'work/store.ts',
    find: '`UPDATE work SET leased = 0, due = ?, crashes',
    replace: '`UPDATE work SET leased = 0, due = ?, attempts = attempts + 1, crashes',
    finds: /are numbered/,
  },
  'a crash restarts the retry schedule': {
    file: 'work/store.ts',
    find: '`UPDATE work SET leased = 0, due = ?, crashes',
    replace: '`UPDATE work SET leased = 0, due = ?, attempts = 0, crashes',
    finds: /are numbered|before its time/,
  },
  'deferral without an attempt counts as an attempt': {
    file: 'work/store.ts',
    find: 'attempts = attempts + lease.tried,',
    replace: 'attempts = attempts + 1,',
    finds: /are numbered/,
  },
  'each retry uses the previous delay': {
    file: 'base/backoff.ts',
    find: 'return DELIVERY_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;',
    replace: 'return DELIVERY_DELAYS_MS[Math.max(0, attempts - 2)] ?? LAST_DELAY_MS;',
    finds: /attempt \d+ of msg_\w+ came \d+ ms before its time/,
  },
  'jitter can halve a delay': {
    file: 'base/backoff.ts',
    find: 'return Math.round(delayMs * (0.9 + 0.2 * random));',
    replace: 'return Math.round(delayMs * (0.5 + 0.6 * random));',
    finds: /before its time/,
  },
  'a restart makes all deferred mail due': {
    file: 'work/store.ts',
    find: 'crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);',
    replace: 'crashes = crashes + ${CRASH} WHERE leased > 0 OR attempts > 0`, nowMs);',
    finds: /before its time/,
  },
  'a blocked host retries on the normal schedule': {
    file: 'base/backoff.ts',
    find: 'return BLOCKED_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;',
    replace: 'return DELIVERY_DELAYS_MS[attempts - 1] ?? LAST_DELAY_MS;',
    finds: /before its time|was put off for/,
  },
  'later retries are an hour late': {
    file: 'work/store.ts',
    find: 'SET leased = ${LEASED.free}, due = lease.due, attempts',
    replace:
      'SET leased = ${LEASED.free}, due = lease.due + CASE WHEN work.attempts > 0 THEN 3600000 ELSE 0 END, attempts',
    finds: /attempt \d+ of .* late/,
  },
  'a webhook retry uses the previous delay': {
    file: 'base/backoff.ts',
    find: 'return WEBHOOK_DELAYS_MS[attempts - 1];',
    replace: 'return WEBHOOK_DELAYS_MS[attempts > 1 && attempts < 10 ? attempts - 2 : attempts - 1];',
    finds: /attempt \d+ of evt_\w+ came to .* before its time/,
  },
  'a webhook retry is late': {
    file: 'webhooks/settle.ts',
    find: "againAtMs: one.result === 'retry' ? (one.nextAttemptMs ?? one.atMs) : null,",
    replace: "againAtMs: one.result === 'retry' ? (one.nextAttemptMs ?? one.atMs) + 600_000 : null,",
    finds: /after its time/,
  },
  'Retry-After of a webhook endpoint is ignored': {
    file: 'webhooks/attempt.ts',
    find: "const requested = outcome.ok ? retryAfterMs(outcome.headers['retry-after']",
    replace: "const requested = outcome.ok ? retryAfterMs(outcome.headers['x-retry-after']",
    finds: /came to .* before its time/,
  },
  'an event that was accepted slowly is sent again': {
    file: 'webhooks/attempt.ts',
    find: 'if (isAccepted && !answer.isListedAsFailed)',
    replace: 'if (isAccepted && outcome.latencyMs < 1_000)',
    finds: /came again to .* after its success/,
  },
  'an endpoint that answered 410 is tried again': {
    file: 'webhooks/attempt.ts',
    find: "if (outcome.ok && outcome.status === 410) return { kind: 'gone', nextAttemptMs: null };",
    replace: '',
    finds: /answered 410, and is not disabled|events after its 410/,
  },
  'an endpoint that answered 410 is disabled but still receives events': {
    file: 'webhooks/claim.ts',
    find: 'if (event && target?.enabled) jobs.push(job);',
    replace: 'if (event && target) jobs.push(job);',
    also: {
      file: 'webhooks/settle.ts',
      find: '  await unsubscribe(tx, webhookId);\n',
      replace: '',
    },
    finds: /events after its 410/,
  },
  'an event that the response to a batch lists as failed is not sent again': {
    file: 'webhooks/attempt.ts',
    find: 'if (isAccepted && !answer.isListedAsFailed)',
    replace: 'if (isAccepted)',
    finds: /never came to its endpoint/,
  },
  'an event that joins a batch is not sent': {
    file: 'webhooks/batch.ts',
    find: "body: `[${events.map(({ body }) => body).join(',')}]`",
    replace: 'body: `[${events[0]!.body}]`',
    finds: /never came to its endpoint/,
  },
  'a redirect counts as a success': {
    file: 'webhooks/attempt.ts',
    find: 'outcome.ok && outcome.status >= 200 && outcome.status < 300;',
    replace: 'outcome.ok && outcome.status >= 200 && outcome.status < 400;',
    finds: /never came to its endpoint/,
  },
};
