/**
 * Planted bugs in what customers request after a message was accepted: keys, moves, cancellations, copies, retention, templates and lists.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_CUSTOMERS: Readonly<Record<string, Planted>> = {
  'idempotency keys expire after 12 hours': {
    file: 'idempotency/idempotency.ts',
    find: 'export const KEY_LIFETIME_MS = 86_400_000;',
    replace: 'export const KEY_LIFETIME_MS = 43_200_000;',
    finds: /within a day/,
  },
  'idempotency keys expire after 48 hours': {
    file: 'idempotency/idempotency.ts',
    find: 'export const KEY_LIFETIME_MS = 86_400_000;',
    replace: 'export const KEY_LIFETIME_MS = 172_800_000;',
    finds: /after more than a day/,
  },
  'an idempotency key can be reused before its message is settled': {
    file: 'idempotency/idempotency.ts',
    find: 'return expiresAt > nowMs || (await hasUnfinishedMessages(tx, { ...key, body: answer.body })) ? answer : null;',
    replace: 'return expiresAt > nowMs ? answer : null;',
    also: {
      file: 'idempotency/idempotency.ts',
      find: 'if (expired === null || (await hasUnfinishedMessages(tx, { ...row, body: expired }))) inUse',
      replace: 'if (expired === null) inUse',
    },
    finds: /was free for another mail/,
  },
  'rescheduled mail is sent at its first time': {
    file: 'messages/api-store.ts',
    find: "'UPDATE work SET due = ?, held = 0 WHERE seq = ? AND leased = 0',",
    replace: "'UPDATE work SET due = min(due, ?), held = 0 WHERE seq = ? AND leased = 0',",
    finds: /came before its time/,
  },
  'rescheduled mail expires as if it had its first time': {
    file: 'messages/api-store.ts',
    find: '      sendAtMs + expiresAfterSeconds * 1000,\n',
    replace: '      move.nowMs + expiresAfterSeconds * 1000,\n',
    finds: /expires after/,
  },
  'deferred mail cannot be canceled': {
    file: 'messages/api-store.ts',
    find: "const CANCELLABLE: readonly MessageStatus[] = ['scheduled', 'queued', 'delayed'];",
    replace: "const CANCELLABLE: readonly MessageStatus[] = ['scheduled', 'queued'];",
    finds: /was refused: .*its status is delayed/,
  },
  'mail can be canceled while it is being delivered': {
    file: 'messages/api-store.ts',
    find: "    if ((found.leased ?? 0) > 0) return { changed: false, reason: 'state', status: 'sending' };\n    const { accountId, mode, messageId } = cancellation;\n    if ((await tx.run('DELETE FROM work WHERE seq = ? AND leased = 0'",
    replace:
      "    const { accountId, mode, messageId } = cancellation;\n    if ((await tx.run('DELETE FROM work WHERE seq = ?'",
    finds: /was cancelled, and came/,
  },
  'mail can be resent before it is settled': {
    file: 'send/resend.ts',
    find: 'if (isUnfinished(mail.status)) return refuse(notSettled(mail.status));',
    replace: '',
    finds: /was sent again before it was settled/,
  },
  'resent mail keeps its Message-ID': {
    file: 'send/resend.ts',
    find: "const renewed = mail.source === 'http' ? withNewMessageId(stored, mail.header_message_id) : undefined;",
    replace: "const renewed = mail.source === 'smtp' ? withNewMessageId(stored, mail.header_message_id) : undefined;",
    finds: /another copy after/,
  },
  'a resend ignores its idempotency key': {
    file: 'send/resend.ts',
    find: '    idempotency: resend.idempotency,\n',
    replace: '    idempotency: null,\n',
    finds: /answered differently|^key resent/,
  },
  'content without retention is kept after delivery': {
    file: 'delivery/record/settle.ts',
    find: "one.retain === 'none' && one.to",
    replace: "one.retain === 'none' && one.to !== 'delivered' && one.to",
    finds: /is kept, though its customer wants that not/,
  },
  'content with seven days of retention is deleted at delivery': {
    file: 'delivery/record/settle.ts',
    find: "one.retain === 'none' && one.to",
    replace: "one.retain !== '30d' && one.to",
    finds: /is gone before its time/,
  },
  'the first settled recipient deletes the content of the others': {
    file: 'messages/retention-store.ts',
    find: '`SELECT seq, blob_key FROM email WHERE ${these} AND NOT EXISTS\n       (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ${UNFINISHED})`',
    replace: '`SELECT seq, blob_key FROM email WHERE ${these}`',
    finds: /content of the message|gone before|is not found|nobody refused it/,
  },
  'canceled mail keeps its content': {
    file: 'messages/api-store.ts',
    find: "return email?.retain === 'none' ? [",
    replace: "return email?.retain === '7d' ? [",
    finds: /is kept, though its customer wants that not|is gone before its time/,
  },
  'templates are cached for an hour': {
    file: 'templates/source.ts',
    find: 'const FRESH_MS = 700;',
    replace: 'const FRESH_MS = 3_600_000;',
    also: {
      file: 'templates/source.ts',
      find: 'changed: (accountId) => heads.evictWhere((known) => known.accountId === accountId),',
      replace: 'changed: () => undefined,',
    },
    finds: /^edited-1 has \d+ of its/,
  },
  'every version of a template renders as the first': {
    file: 'templates/source.ts',
    find: '`${id}/${version}/${layoutId}/${layoutVersion}`',
    replace: '`${id}/${layoutId}/${version * 0}/${layoutVersion}`',
    finds: /^edited-1 has \d+ of its/,
  },
  'queued mail is not checked against the suppression list': {
    file: 'suppressions/store.ts',
    find: 'return (address) => ends.get(keyOf(address)) ?? 0;',
    replace: 'return (address) => (ends.get(keyOf(address)) === 0 ? 1 : 0);',
    finds: /was tried, though .* was suppressed before|which is suppressed/,
  },
  'an address stays suppressed after its removal from the list': {
    file: 'suppressions/store.ts',
    find: '`DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ?\n         AND',
    replace: '`UPDATE suppression SET mode = mode WHERE account_id = ? AND mode = ? AND email = ?\n         AND',
    finds: /was let off the list|is suppressed, though/,
  },
  'all messages of a batch share one idempotency key': {
    file: 'send/batch.ts',
    find: 'endpoint: `${BATCH_ENDPOINT}#${index}`,',
    replace: 'endpoint: `${BATCH_ENDPOINT}#${index * 0}`,',
    finds: /in a batch|a batch answered|was never acknowledged/,
  },
  'an invalid message of a batch skips the next one': {
    file: 'send/batch.ts',
    find: "const isFinal = results.every((result) => !('error' in result)",
    replace:
      "for (const [at, one] of results.entries()) if ('error' in one && results[at + 1]) results[at + 1] = one;\n  const isFinal = results.every((result) => !('error' in result)",
    finds: /a batch answered 400 to a mail that is valid/,
  },
  'a graceful stop counts as a crash': {
    file: 'work/engine.ts',
    find: "this.#settler.putBack('release', leaseOf(item));",
    replace: "this.#settler.putBack('crashed', { ...leaseOf(item), dueMs: this.#deps.clock.now() });",
    finds: /count a crash, and no process died/,
  },
  'a graceful stop leaves waiting work leased': {
    file: 'work/engine.ts',
    find: "for (const item of [...this.#leases.values()]) if (item.state === 'waiting') this.release(item);",
    replace: '',
    finds: /a planned stop left|a planned stop took/,
  },
  'parked work is not resumed': {
    file: 'work/store.ts',
    find: 'UPDATE work SET held = 0, due = (SELECT CASE',
    replace: 'UPDATE work SET held = 1, due = (SELECT CASE',
    finds: /not come to its end/,
  },
  'parked work keeps its lease': {
    file: 'work/store.ts',
    find: '`held = ${HELD.parked}, leased = ${LEASED.free}, due = ?`',
    replace: '`held = ${HELD.parked}, due = ?`',
    finds: /given up|not come to its end|before its time|a planned stop left/,
  },
  'sandbox events go to live webhooks': {
    file: 'events/event.ts',
    find: 'AND wanted.mode = made.mode AND wanted.event_type = made.topic',
    replace: 'AND wanted.event_type = made.topic',
    finds: /a live endpoint got .* in mode sandbox/,
  },
  'a success does not reset the failures of a webhook': {
    file: 'webhooks/settle.ts',
    find: "await tx.run('UPDATE webhook SET failing_since = NULL WHERE id = ? AND failing_since IS NOT NULL', webhookId);",
    replace: 'await Promise.resolve();',
    finds: /counts as failing since before its success/,
  },
  'a changed webhook URL is ignored': {
    file: 'webhooks/sign.ts',
    find: 'a.url === b.url &&',
    replace: '',
    finds: /ms after its change/,
  },
  'the stored response of a batch includes temporary errors': {
    file: 'send/batch.ts',
    find: 'if (isFinal && hasAccepted) {',
    replace: 'if (hasAccepted) {',
    finds: /was never acknowledged/,
  },
  're-encoded mail keeps the DKIM signature of its original': {
    file: 'delivery/attempt/prepare.ts',
    find: 'sign: prepared.signerOf(result.content)',
    replace: 'sign: prepared.sign',
    finds: /the signature of another body/,
  },
  'every expired lease counts as a crash': {
    file: 'work/store.ts',
    find: 'const CRASH = `(CASE WHEN leased = ${LEASED.running} OR (leased = ${LEASED.taken} AND crashes = 0) THEN 1 ELSE 0 END)`;',
    replace: 'const CRASH = `(CASE WHEN leased > 0 THEN 1 ELSE 0 END)`;',
    finds: /counts another crash, and only waited/,
  },
  'a simulated bounce suppresses the address': {
    file: 'delivery/record/results.ts',
    find: "let outcome = job.mode === 'sandbox' ? { ...settling.outcome, suppress: false } : settling.outcome;",
    replace: 'let outcome = settling.outcome;',
    finds: /is suppressed without a reason/,
  },
  'all recipients of an email share one unsubscribe link': {
    file: 'send/compose-emails.ts',
    find: '  if (mail.listUnsubscribe) return true;\n',
    replace: '',
    finds: /has the link of another recipient/,
  },
};
