/** Planted bugs that omit something: no data is wrong, and only an oracle that expects the missing action finds them. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_OMISSIONS: Readonly<Record<string, Planted>> = {
  'SMTP submission keeps only the first recipient': {
    file: 'send/submit.ts',
    find: 'recipients: submission.recipients.map((address, index) => ({',
    replace: 'recipients: submission.recipients.slice(0, 1).map((address, index) => ({',
    finds: /^lost: mail/,
  },
  'deferred mail is tried again only when it expires': {
    file: 'delivery/record/results.ts',
    find: 'return Math.min(nowMs + jitter(delayMs, random), expiresAtMs);',
    replace: 'return expiresAtMs;',
    finds: /was put off for/,
  },
  'deferred mail is due an hour after the reported time': {
    file: 'delivery/record/settle.ts',
    find: "againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) : null,",
    replace: "againAtMs: one.to === 'delayed' ? (one.nextAttemptAtMs ?? one.atMs) + 3_600_000 : null,",
    finds: /attempt \d+ of .* late/,
  },
  'work of a dead process is due an hour later': {
    file: 'work/store.ts',
    find: '`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs);',
    replace:
      '`UPDATE work SET leased = 0, due = ?, crashes = crashes + ${CRASH} WHERE leased > 0`, nowMs + 3_600_000);',
    finds: /in hand at a death, and is not taken over/,
  },
  'no bounce suppresses the address': {
    file: 'delivery/record/results.ts',
    find: '  if (!suppress) return null;\n',
    replace: '  if (suppress || !suppress) return null;\n',
    finds: /bounced with .*, and is not suppressed/,
  },
  'suppression because of a missing domain never expires': {
    file: 'delivery/record/results.ts',
    find: 'const untilMs = suppressDays === undefined ? null : nowMs + suppressDays * DAY_MS;',
    replace: 'const untilMs = suppressDays === undefined ? null : null;',
    finds: /is suppressed until null/,
  },
  'every rejection of RCPT suppresses the address': {
    file: 'delivery/outcome/outcome.ts',
    find: 'if (suppress === undefined || !isOfOne || !isAboutAddress(normalized)) {',
    replace: 'if (!isOfOne) {',
    finds: /is suppressed without a reason/,
  },
  'a blocklist rejection is permanent': {
    file: 'delivery/outcome/outcome.ts',
    find: "new Set(['blocked', 'greylisted', 'rate-limited', 'remote-error']);",
    replace: "new Set(['greylisted', 'rate-limited', 'remote-error']);",
    finds: /bounced, and nobody refused it/,
  },
  'results are recorded with a delay': {
    file: 'work/settler.ts',
    find: 'else setImmediate(() => void this.#write());',
    replace: 'else setTimeout(() => void this.#write(), 20_000);',
    finds: /another copy after one that was answered|came again to .* after its success/,
  },
  'inbound mail is not accepted': {
    file: 'smtp/inbound.ts',
    find: '  if (closedToMail() !== undefined) return refuse(dialogue, BUSY);\n  dialogue.envelope =',
    replace:
      '  if (closedToMail() !== undefined || limits.maxRecipients > 0) return refuse(dialogue, BUSY);\n  dialogue.envelope =',
    finds: /^what came back .* was never taken/,
  },
  'batches are never accepted': {
    file: 'send/batch.ts',
    find: '  const { caller, origin, backPressure, idempotency } = request;\n',
    replace:
      "  if (index > 0) return refused(failure('OVERLOADED'));\n  const { caller, origin, backPressure, idempotency } = request;\n",
    finds: /^batched-\d+ was never acknowledged/,
  },
  'webhook events are dropped after one failure': {
    file: 'webhooks/attempt.ts',
    find: "if (delayMs === undefined) return { kind: 'failed'",
    replace: "if (delayMs === undefined || answer.attempts > 0) return { kind: 'failed'",
    finds: /was given up after 1 attempts/,
  },
  'rejected mail is stored': {
    file: 'send/accept-emails.ts',
    find: 'await putLargeContent(blobs, given.emails) : NO_BLOBS;',
    replace:
      'await putLargeContent(blobs, given.emails).catch((error) => { setTimeout(() => void createAcceptEmails(dependencies)(given).catch(() => undefined), 5_000); throw error; }) : NO_BLOBS;',
    finds: /was answered 503, and was accepted/,
  },
  'another request with the same idempotency key counts as a repeat': {
    file: 'idempotency/idempotency.ts',
    find: "if (!isSame) return refuse(failure('IDEMPOTENCY_KEY_REUSED'));",
    replace: "if (!isSame && stored.status === 0) return refuse(failure('IDEMPOTENCY_KEY_REUSED'));",
    finds: /202 to another mail under its key/,
  },
  'the certificate is not verified for requireTls "verified"': {
    file: 'net/smtp-greeting.ts',
    find: 'const tlsOptions = clientTlsOptions(serverName, { verify, observe',
    replace: 'const tlsOptions = clientTlsOptions(serverName, { verify: false, observe',
    finds: /asks for a certificate and came without/,
  },
  'events are written after the commit of their change': {
    file: 'messages/state-machine.ts',
    find: '  await appendEvents(tx, appended, seqs);',
    replace: '  setTimeout(() => void appendEvents(tx, appended), 5);',
    finds: /with events Send/,
  },
  'content is stored after its row': {
    file: 'storage/blobs/disk.ts',
    find: '      return write(key.slice(0, 2), async (file) => {\n        await file.writeFile(content)',
    replace:
      '      const later = (fill: any): string => { setTimeout(() => void write(key.slice(0, 2), fill).catch(() => undefined), 5); return key; };\n      return later(async (file: any) => {\n        await file.writeFile(content)',
    finds: /is named by a row, and gone|content of the message is missing/,
  },
  'the idempotency record is written after the commit of its message': {
    file: 'send/acceptance.ts',
    find: 'insertMany(tx, IDEMPOTENCY, rows.records),',
    replace: "void setTimeout(() => void insertMany(tx, IDEMPOTENCY, rows.records, 'ON CONFLICT DO NOTHING'), 5),",
    finds: /^key .* messages to/,
  },
};
