/**
 * Whether the answer that an idempotency key was given has to be kept past its time: as long as one of the messages that it
 * names is still to be tried. The answer itself says which these are, for one send and for a batch alike, so that a message
 * that was moved to a later time afterwards keeps the answer too.
 */
import type { Mode } from '../base/mode.ts';
import type { EmbeddedTransaction, Transaction } from '../storage/operation.ts';

export interface KeptAnswer {
  accountId: string;
  mode: Mode;
  /** The stored body: of POST /send, or of POST /send/batch. */
  body: string;
}

interface SendAnswer {
  data?: { recipients?: { messageId?: unknown }[] };
}

/** Parameters of one query. */
const PART = 100;

function messageIdsOf(body: string): string[] {
  const parsed = JSON.parse(body) as SendAnswer & { results?: SendAnswer[] };
  const answers = parsed.results ?? [parsed];
  return answers.flatMap((answer) =>
    (answer.data?.recipients ?? []).flatMap(({ messageId }) => (typeof messageId === 'string' ? [messageId] : [])),
  );
}

interface Question {
  sql: string;
  params: string[];
}

/** Each answers a row when one of its messages is unfinished. */
function questions({ accountId, mode, body }: KeptAnswer): Question[] {
  const ids = messageIdsOf(body);
  const asked: Question[] = [];
  for (let at = 0; at < ids.length; at += PART) {
    const part = ids.slice(at, at + PART);
    const sql = `SELECT 1 AS found FROM message WHERE account_id = ? AND mode = ?
      AND id IN (${part.map(() => '?').join(', ')}) AND status IN ('scheduled', 'queued', 'sending', 'delayed') LIMIT 1`;
    asked.push({ sql, params: [accountId, mode, ...part] });
  }
  return asked;
}

export async function isStillOwed(tx: Transaction, answer: KeptAnswer): Promise<boolean> {
  for (const { sql, params } of questions(answer)) if ((await tx.get(sql, ...params)) !== undefined) return true;
  return false;
}

export function isStillOwedHere(tx: EmbeddedTransaction, answer: KeptAnswer): boolean {
  return questions(answer).some(({ sql, params }) => tx.get(sql, ...params) !== undefined);
}
