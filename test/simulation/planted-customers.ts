/** Planted bugs of what customers ask for after their mail was accepted: keys, moves, cancellations, copies, retention, templates and lists. */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: pieces of source text
import type { Planted } from './planted.ts';

export const PLANTED_CUSTOMERS: Readonly<Record<string, Planted>> = {
  'a key is kept for half a day': {
    file: 'idempotency/idempotency.ts',
    find: 'export const KEY_LIFETIME_MS = 86_400_000;',
    replace: 'export const KEY_LIFETIME_MS = 43_200_000;',
    finds: /within a day/,
  },
  'a key is kept for two days': {
    file: 'idempotency/idempotency.ts',
    find: 'export const KEY_LIFETIME_MS = 86_400_000;',
    replace: 'export const KEY_LIFETIME_MS = 172_800_000;',
    finds: /after more than a day/,
  },
  'a key is free while its mail is not settled': {
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
  'mail that is moved to a later time leaves at its first one': {
    file: 'messages/api-store.ts',
    find: "'UPDATE work SET due = ?, held = 0 WHERE seq = ? AND leased = 0',",
    replace: "'UPDATE work SET due = min(due, ?), held = 0 WHERE seq = ? AND leased = 0',",
    finds: /came before its time/,
  },
  'mail that is moved expires as if it was not': {
    file: 'messages/api-store.ts',
    find: '      sendAtMs + expiresAfterSeconds * 1000,\n',
    replace: '      move.nowMs + expiresAfterSeconds * 1000,\n',
    finds: /expires after/,
  },
  'mail that was deferred cannot be cancelled': {
    file: 'messages/api-store.ts',
    find: "const CANCELLABLE: readonly MessageStatus[] = ['scheduled', 'queued', 'delayed'];",
    replace: "const CANCELLABLE: readonly MessageStatus[] = ['scheduled', 'queued'];",
    finds: /was refused: .*its status is delayed/,
  },
  'mail can be cancelled while it is sent': {
    file: 'messages/api-store.ts',
    find: "    if ((found.leased ?? 0) > 0) return { changed: false, reason: 'state', status: 'sending' };\n    const { accountId, mode, messageId } = cancellation;\n    if ((await tx.run('DELETE FROM work WHERE seq = ? AND leased = 0'",
    replace:
      "    const { accountId, mode, messageId } = cancellation;\n    if ((await tx.run('DELETE FROM work WHERE seq = ?'",
    finds: /was cancelled, and came/,
  },
  'mail can be sent again before it is settled': {
    file: 'send/resend.ts',
    find: 'if (isUnfinished(mail.status)) return refuse(notSettled(mail.status));',
    replace: '',
    finds: /was sent again before it was settled/,
  },
  'mail that is sent again keeps its Message-ID': {
    file: 'send/resend.ts',
    find: "const renewed = mail.source === 'http' ? withNewMessageId(stored, mail.header_message_id) : undefined;",
    replace: "const renewed = mail.source === 'smtp' ? withNewMessageId(stored, mail.header_message_id) : undefined;",
    finds: /another copy after/,
  },
  'mail is sent again as often as it is asked for under one key': {
    file: 'send/resend.ts',
    find: '    idempotency: resend.idempotency,\n',
    replace: '    idempotency: null,\n',
    finds: /answered differently|^key resent/,
  },
  'content that nobody wants is kept after a delivery': {
    file: 'delivery/settle.ts',
    find: "one.retain === 'none' && one.to",
    replace: "one.retain === 'none' && one.to !== 'delivered' && one.to",
    finds: /is kept, though its customer wants that not/,
  },
  'content that is kept for seven days is gone at once': {
    file: 'delivery/settle.ts',
    find: "one.retain === 'none' && one.to",
    replace: "one.retain !== '30d' && one.to",
    finds: /is gone before its time/,
  },
  'the first copy that is settled takes the content from the others': {
    file: 'messages/retention-store.ts',
    find: '`SELECT seq, blob_key FROM email WHERE ${these} AND NOT EXISTS\n       (SELECT 1 FROM message WHERE email_seq = email.seq AND status IN ${UNFINISHED})`',
    replace: '`SELECT seq, blob_key FROM email WHERE ${these}`',
    finds: /content of the message|gone before|is not found|nobody refused it/,
  },
  'cancelled mail keeps its content': {
    file: 'messages/api-store.ts',
    find: "return email?.retain === 'none' ? [",
    replace: "return email?.retain === '7d' ? [",
    finds: /is kept, though its customer wants that not|is gone before its time/,
  },
  'a template is remembered for an hour': {
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
  'every version of a template is taken for its first': {
    file: 'templates/source.ts',
    find: '`${id}/${version}/${layoutId}/${layoutVersion}`',
    replace: '`${id}/${layoutId}/${version * 0}/${layoutVersion}`',
    finds: /^edited-1 has \d+ of its/,
  },
  'mail that waits is not compared with the suppression list': {
    file: 'suppressions/store.ts',
    find: 'return (address) => ends.get(keyOf(address)) ?? 0;',
    replace: 'return (address) => (ends.get(keyOf(address)) === 0 ? 1 : 0);',
    finds: /was tried, though .* was suppressed before|which is suppressed/,
  },
  'an address stays suppressed after it was let off the list': {
    file: 'suppressions/store.ts',
    find: '`DELETE FROM suppression WHERE account_id = ? AND mode = ? AND email = ?\n         AND',
    replace: '`UPDATE suppression SET mode = mode WHERE account_id = ? AND mode = ? AND email = ?\n         AND',
    finds: /was let off the list|is suppressed, though/,
  },
  'all mail of a batch shares one key': {
    file: 'send/batch.ts',
    find: 'endpoint: `${BATCH_ENDPOINT}#${index}`,',
    replace: 'endpoint: `${BATCH_ENDPOINT}#${index * 0}`,',
    finds: /in a batch|a batch answered|was never acknowledged/,
  },
  'an invalid mail of a batch takes the next one along': {
    file: 'send/batch.ts',
    find: "const isFinal = results.every((result) => !('error' in result)",
    replace:
      "for (const [at, one] of results.entries()) if ('error' in one && results[at + 1]) results[at + 1] = one;\n  const isFinal = results.every((result) => !('error' in result)",
    finds: /a batch answered 400 to a mail that is valid/,
  },
  'a planned stop counts as a crash': {
    file: 'work/engine.ts',
    find: "this.#settler.putBack('release', leaseOf(item));",
    replace: "this.#settler.putBack('crashed', { ...leaseOf(item), dueMs: this.#deps.clock.now() });",
    finds: /count a crash, and no process died/,
  },
  'a planned stop leaves what waits in progress': {
    file: 'work/engine.ts',
    find: "for (const item of [...this.#leases.values()]) if (item.state === 'waiting') this.release(item);",
    replace: '',
    finds: /a planned stop left|a planned stop took/,
  },
  'work that was parked is not resumed': {
    file: 'work/store.ts',
    find: 'UPDATE work SET held = 0, due = (SELECT CASE',
    replace: 'UPDATE work SET held = 1, due = (SELECT CASE',
    finds: /not come to its end/,
  },
  'work that is parked keeps its lease': {
    file: 'work/store.ts',
    find: '`held = 1, leased = ${FREE}, due = ?`',
    replace: '`held = 1, due = ?`',
    finds: /given up|not come to its end|before its time|a planned stop left/,
  },
};
