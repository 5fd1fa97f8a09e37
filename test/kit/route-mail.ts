/** Messages for a route as another server sends them, and checks of the result: their bytes, and one event each. */
import assert from 'node:assert/strict';
import type { Service } from './start-service.ts';
import { waitUntil } from './wait-until.ts';

const LARGE_BYTES = 300_000;
/** Not UTF-8, and with a line that starts with a dot. */
const BYTES = Buffer.from('..a line with a dot in front, and \xff\xfe\r\n', 'latin1');

/** With `isLarge`, larger than what stays in memory; every message differs. */
export function routeMail(subject: string, { isLarge }: { isLarge: boolean }): Buffer {
  const header = Buffer.from(`From: ann@example.com\r\nSubject: ${subject}\r\n\r\n`);
  const lines = Array.from({ length: isLarge ? Math.ceil(LARGE_BYTES / BYTES.length) : 1 }, () => BYTES);
  return Buffer.concat([header, ...lines]);
}

/** Returns the id in `250 2.0.0 queued as inb_…`. */
export function inboundIdIn(reply: string): string {
  return /^250 2\.0\.0 queued as (inb_\w+)/.exec(reply)?.[1] ?? assert.fail(reply);
}

/** Returns the ids of messages with an event, repeated for repeated events. */
export async function inboundEvents(service: Service): Promise<string[]> {
  const { body } = await service.api.get('/events?eventType=Inbound&limit=100');
  return (body as unknown as { messageId: string }[]).map(({ messageId }) => messageId);
}

/** Waits for the event of each accepted message; asserts that each has one, and is stored byte for byte. */
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
