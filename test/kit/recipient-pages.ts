/**
 * The pages for recipients behind the real HTTP shell on the database of a send rig: sends a message, and calls its links as a recipient or
 * a machine does.
 */
import { request } from 'node:http';
import PostalMime from 'postal-mime';
import type { Caller } from '../../src/accounts/accounts.ts';
import { trackingRoutes, unsubscribeRoutes } from '../../src/api/engagement.ts';
import { failure, Unavailable } from '../../src/base/failure.ts';
import { silentLog } from '../../src/base/log.ts';
import type { Mode } from '../../src/base/mode.ts';
import { createHttpApp } from '../../src/http/app.ts';
import type { Database } from '../../src/storage/database.ts';
import { testAddressHash } from './address-hash.ts';
import { dataOf, GOOD, rowsOf, sendRig, settle } from './send-rig.ts';

export const PERSON =
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36';

export interface PageAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

/** A client that follows no redirects and adds no headers. */
function callAt(
  base: string,
  what: { method: string; address: string; headers?: Record<string, string>; body?: string },
): Promise<PageAnswer> {
  return new Promise((resolve, reject) => {
    const { pathname, search } = new URL(what.address);
    const target = new URL(pathname + search, base);
    const { method, headers = {} } = what;
    const sent = request(target, { method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () =>
        resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: Buffer.concat(chunks) }),
      );
    });
    sent.on('error', reject);
    sent.end(what.body);
  });
}

export async function recipientPages() {
  const rig = await sendRig();
  const state = { isDown: false, nudges: 0 };
  const database: Database = {
    dialect: rig.database.dialect,
    state: () => rig.database.state(),
    close: () => rig.database.close(),
    execute: (op, args) => (state.isDown ? Promise.reject(new Unavailable('down')) : rig.database.execute(op, args)),
  };
  const { clock, unsubscribeLinks, trackingLinks } = rig;
  const nudge = (): void => {
    state.nudges += 1;
  };
  const app = createHttpApp<Caller>({
    host: '127.0.0.1',
    port: 0,
    log: silentLog,
    routes: [
      ...unsubscribeRoutes({ database, clock, addressHash: testAddressHash, unsubscribeLinks, nudge }),
      ...trackingRoutes({ database, clock, trackingLinks, nudge }),
    ],
    authenticate: () => ({ ok: false, failure: failure('UNAUTHORIZED') }),
  });
  const base = `http://127.0.0.1:${(await app.listen()).port}`;

  return {
    rig,
    /** Can be changed: `isDown` simulates a storage that does not answer. */
    state,
    call: (method: string, address: string, headers?: Record<string, string>, body?: string): Promise<PageAnswer> =>
      callAt(base, { method, address, ...(headers && { headers }), ...(body !== undefined && { body }) }),
    /** Sends, and returns what the first recipient got. */
    sent: async (body: object, mode: Mode = 'live') => {
      const { messageId } = dataOf(await rig.send({ ...GOOD, ...body }, { mode }));
      const job = rig.offered.find((one) => one.messageId === messageId);
      if (!job?.content) throw new Error(`${messageId} was not claimed with its content`);
      return { messageId, mail: await PostalMime.parse(job.content) };
    },
    /** Records that the message was delivered this many milliseconds ago. */
    delivered: async (messageId: string, agoMs: number): Promise<void> => {
      // Later than the Send event: the events of a message have different times.
      clock.advance(1);
      const event = { id: `evt_${messageId}`, type: 'Delivery' as const, detail: {} };
      await settle(rig, messageId, { to: 'delivered', event });
      clock.advance(agoMs);
    },
    eventsOf: async (messageId: string) => {
      const rows = await rowsOf<{ type: string; detail: string; at: number }>(
        rig,
        `SELECT type, detail, at FROM event WHERE message_id = '${messageId}' ORDER BY seq`,
      );
      return rows.map((row) => ({ type: row.type, at: row.at, detail: JSON.parse(row.detail) }));
    },
    suppressed: (email: string) =>
      rowsOf<{ mode: string; reason: string; source_message_id: string; expires_at: number | null }>(
        rig,
        `SELECT mode, reason, source_message_id, expires_at FROM suppression WHERE email = '${email}'`,
      ),
    close: async (): Promise<void> => {
      await app.stop({ deadlineMs: 500 });
      await rig.close();
    },
  };
}

export type RecipientPages = Awaited<ReturnType<typeof recipientPages>>;
