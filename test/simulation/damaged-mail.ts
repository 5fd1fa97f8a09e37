/**
 * Inbound messages with a flipped bit in their stored content: they must still be completed, a reply with an event that reports the damage,
 * a report by quarantine.
 */
import type { Disk } from './disk.ts';
import type { Rows, SimulatedNode } from './node.ts';
import type { Random } from './random.ts';
import type { Report } from './reporters.ts';
import type { Timeline } from './timeline.ts';

interface Endangered {
  timeline: Timeline;
  random: Random;
  disk: Disk;
  node: SimulatedNode;
  count(what: string): void;
}

/** The row appears a moment after the blob, and is read a moment later. */
const SHARE = 0.8;
const MAX_EXAMINED = 20;

export function planInboundFlips({ timeline, random, disk, node, count }: Endangered): void {
  const draw = random.stream('inbound flips');
  const waits = (key: string): boolean =>
    node.rows?.get("SELECT 1 AS found FROM inbound_mail WHERE blob_key = ? AND status = 'waiting'", key) !== undefined;
  const look = (key: string, left: number): void => {
    if (waits(key) && disk.flip(key)) count('bit flip in inbound mail');
    else if (left > 0) again(key, left - 1);
  };
  const again = (key: string, left: number): void =>
    void timeline.after(draw.between(0.2, 3), 'flip', () => look(key, left), timeline.world);
  disk.onBlob = (key) => {
    if (draw.chance(SHARE)) again(key, MAX_EXAMINED);
  };
}

/**
 * Returns the reports that must have an effect: replies without a damaged message that ended otherwise. A report with a quarantined copy
 * may have an effect, since it was sent twice, but does not have to.
 */
export function whole(reports: readonly Report[], database: Rows): Report[] {
  const aside = database.all<{ purpose: string }>("SELECT purpose FROM inbound_mail WHERE status = 'aside'");
  const nameless = database.all<{ detail: string }>(
    `SELECT m.detail FROM inbound_message m JOIN event e ON e.message_id = m.id AND e.type = 'Inbound' WHERE m.subject = ''`,
  );
  const subjects = database.all<{ subject: string }>('SELECT subject FROM inbound_message');
  let left = nameless.filter(({ detail }) =>
    /"unreadable": ?\["The complete message is unreadable/.test(detail),
  ).length;
  return reports.flatMap((report) => {
    const { kind, messageId, name, acknowledged } = report;
    if (kind !== 'reply') {
      return aside.some(({ purpose }) => purpose.includes(messageId)) ? { ...report, acknowledged: 0 } : report;
    }
    const missing = acknowledged - subjects.filter(({ subject }) => subject === name).length;
    if (missing <= 0 || missing > left) return report;
    left -= missing;
    return [];
  });
}
