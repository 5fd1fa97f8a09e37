/** Planted bugs by which something does not happen that should: nothing wrong stands anywhere, and what is missing shows only to who looks for it. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_OMISSIONS: Readonly<Record<string, Planted>> = {
  'mail over SMTP reaches its first recipient alone': {
    seed: 1,
    file: 'send/submit.ts',
    find: 'recipients: submission.recipients.map((address) => ({',
    replace: 'recipients: submission.recipients.slice(0, 1).map((address) => ({',
    finds: /^lost: mail/,
  },
  'mail that was put off is tried at its end alone': {
    seed: 1,
    file: 'delivery/results.ts',
    find: 'return Math.min(nowMs + jitter(delayMs, random), expiresAtMs);',
    replace: 'return expiresAtMs;',
    finds: /was put off for/,
  },
  'mail that was put off is due an hour after what is said of it': {
    seed: 1,
    file: 'delivery/settle.ts',
    find: "againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) : null,",
    replace: "againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) + 3_600_000 : null,",
    finds: /attempt \d+ of .* late/,
  },
  'what a dead process held is due an hour later': {
    seed: 1,
    file: 'work/store.ts',
    find: '`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);',
    replace:
      '`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs + 3_600_000);',
    finds: /in hand at a death, and is not taken over/,
  },
  'no bounce suppresses its address': {
    seed: 1,
    file: 'delivery/results.ts',
    find: '  if (!suppress) return null;\n',
    replace: '  if (suppress || !suppress) return null;\n',
    finds: /bounced with .*, and is not suppressed/,
  },
  'a domain that takes no mail is suppressed for good': {
    seed: 1,
    file: 'delivery/results.ts',
    find: 'const untilMs = suppressDays === undefined ? null : nowMs + suppressDays * DAY_MS;',
    replace: 'const untilMs = suppressDays === undefined ? null : null;',
    finds: /is suppressed until null/,
  },
  'whatever is refused at RCPT suppresses its address': {
    seed: 1,
    file: 'delivery/outcome.ts',
    find: "const isOfAddress = suppress !== undefined && stage === 'rcpt' && speaksOfAddress(reply);",
    replace: "const isOfAddress = stage === 'rcpt';",
    finds: /is suppressed without a reason/,
  },
  'a block list ends the mail': {
    seed: 1,
    file: 'delivery/outcome.ts',
    find: "if (meaning.category === 'blocked' || (isPermanent && isBeforeMail)) {",
    replace: 'if (isPermanent && isBeforeMail) {',
    finds: /bounced, and nobody refused it/,
  },
  'results wait before they are recorded': {
    seed: 1,
    file: 'work/settler.ts',
    find: 'else setImmediate(() => void this.#write());',
    replace: 'else setTimeout(() => void this.#write(), 20_000);',
    finds: /another copy after one that was answered/,
  },
};
