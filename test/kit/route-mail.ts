/** Mail for a route as another server brings it, and what must be there of it in the end: its bytes, and one event. */
import assert from 'node:assert/strict';
import type { Service } from './start-service.ts';
import { waitUntil } from './wait-until.ts';

const LARGE_BYTES = 300_000;
/** Not UTF-8, and a line that begins with a dot. */
const BYTES = Buffer.from('..a line with a dot in front, and \xff\xfe\r\n', 'latin1');

/** Larger than what stays in memory where `isLarge`; every mail differs. */
export function routeMail(subject: string, { isLarge }: { isLarge: boolean }): Buffer {
  const header = Buffer.from(`From: ann@example.com\r\nSubject: ${subject}\r\n\r\n`);
  const lines = Array.from({ length: isLarge ? Math.ceil(LARGE_BYTES / BYTES.length) : 1 }, () => BYTES);
  return Buffer.concat([header, ...lines]);
}

/** The id in `250 2.0.0 queued as inb_…`. */
export function inboundIdIn(reply: string): string {
  return /^250 2\.0\.0 queued as (inb_\w+)/.exec(reply)?.[1] ?? assert.fail(reply);
}

/** Ids of the mail whose event there is, each time that there is one. */
export async function inboundEvents(service: Service): Promise<string[]> {
  const { body } = await service.api.get('/events?eventType=Inbound&limit=100');
  return (body as unknown as { messageId: string }[]).map(({ messageId }) => messageId);
}

/** Waits for the event of each mail that was taken; each has one, and is kept byte for byte. */
export async function assertTaken(service: Service, taken: ReadonlyMap<string, Buffer>): Promise<void> {
  const events = await waitUntil('the event of each mail', async () => {
    const found = await inboundEvents(service);
    return [...taken.keys()].every((id) => found.includes(id)) && found;
  });
  for (const [id, content] of taken) {
    assert.equal(events.filter((one) => one === id).length, 1, `events of ${id}`);
    const { rawUrl } = (await service.api.get(`/inbound/${id}`)).body.content;
    const raw = Buffer.from(await (await fetch(rawUrl)).arrayBuffer());
    assert.ok(raw.equals(content), `${id} is kept as it came`);
  }
}
