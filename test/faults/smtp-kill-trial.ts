/**
 * A kill -9 between the dot of messages and our 250, and clients that disconnect at that point: everything acknowledged with 250 exists
 * after the restart, everything else exists at most once, and all stored content is complete.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { JsonObject } from '../kit/api.ts';
import { connectTalker, type Talker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';

const FROM = 'load@load.example';
const SESSIONS = 12;

interface Credential {
  username: string;
  password: string;
}

/** Content of the message with this number; every third is large enough to be a blob. */
function contentOf(number: number): string {
  const lines = number % 3 === 0 ? 900 : 3;
  const body = Array.from({ length: lines }, (_, line) => `${number}/${line} ${'x'.repeat(80)}\r\n`).join('');
  return `From: ${FROM}\r\nSubject: mail ${number}\r\n\r\n${body}end of ${number}\r\n`;
}

async function openSession(service: Service, credential: Credential): Promise<Talker> {
  const talker = await connectTalker(service.smtpPort);
  await talker.reply();
  await talker.logIn(credential);
  return talker;
}

/** All stored messages, by subject. */
async function messagesBySubject(service: Service): Promise<Map<string, JsonObject[]>> {
  const found = new Map<string, JsonObject[]>();
  let cursor = '';
  for (;;) {
    const page = await service.sandboxApi.get(`/messages?limit=100${cursor}`);
    for (const message of page.body as unknown as JsonObject[]) {
      found.set(message.subject, [...(found.get(message.subject) ?? []), message]);
    }
    const next = page.headers['x-next-cursor'];
    if (next === undefined) return found;
    cursor = `&cursor=${encodeURIComponent(next)}`;
  }
}

/** Runs the trial and throws at the first broken promise. */
export async function smtpKillTrial(t: TestContext, { kills }: { kills: number }): Promise<void> {
  const service = await startService();
  t.after(() => service.close());
  const credential = (await service.cli(
    'smtp-credential',
    'create',
    service.live.accountId,
    '--mode',
    'sandbox',
  )) as unknown as Credential;
  const answered = new Map<number, string>();
  const unanswered = new Set<number>();
  let next = 0;
  let isOver = false;
  let isDown = false;

  const worker = async (): Promise<void> => {
    let talker: Talker | undefined;
    while (!isOver) {
      try {
        if (isDown) throw new Error('down');
        talker ??= await openSession(service, credential);
        const number = next;
        next += 1;
        talker.send(`MAIL FROM:<${FROM}>\r\nRCPT TO:<ann@example.com>\r\nDATA\r\n`);
        for (let i = 0; i < 3; i += 1) await talker.reply();
        unanswered.add(number);
        talker.send(`${contentOf(number)}.\r\n`);
        // Some clients disconnect after their dot.
        if (number % 10 === 7) {
          talker.end();
          talker.destroy();
          talker = undefined;
          continue;
        }
        const reply = await talker.reply();
        const id = /^250 2\.0\.0 queued as (msg_\w+)$/.exec(reply)?.[1];
        assert.ok(id, reply);
        answered.set(number, id);
        unanswered.delete(number);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        talker?.destroy();
        talker = undefined;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    talker?.destroy();
  };
  const workers = Array.from({ length: SESSIONS }, worker);
  for (let kill = 0; kill < kills; kill += 1) {
    const target = answered.size + 60 + Math.floor(Math.random() * 60);
    await Promise.race([waitUntil(`${target} answers`, () => answered.size >= target, 60_000), ...workers]);
    isDown = true;
    await service.kill('SIGKILL');
    await service.restart();
    isDown = false;
  }
  const target = answered.size + 30;
  await waitUntil(`${target} answers`, () => answered.size >= target, 60_000);
  isOver = true;
  await Promise.all(workers);

  const kept = await messagesBySubject(service);
  const idsOf = (number: number): string[] => (kept.get(`mail ${number}`) ?? []).map((one) => String(one.messageId));
  for (const [number, id] of answered) assert.deepEqual(idsOf(number), [id], `message ${number} was acknowledged`);
  for (const number of unanswered) assert.ok(idsOf(number).length <= 1, `message ${number} is stored twice`);
  const known = new Set([...answered.keys(), ...unanswered].map((number) => `mail ${number}`));
  for (const subject of kept.keys()) assert.ok(known.has(subject), subject);
  assert.ok(unanswered.size >= kills, 'kills came between dot and reply');
  for (const number of [...unanswered, ...[...answered.keys()].slice(-40)]) {
    const [id] = idsOf(number);
    if (id === undefined) continue;
    const { text } = await service.sandboxApi.get(`/messages/${id}/content`);
    assert.ok(
      text.endsWith(contentOf(number).slice(contentOf(number).indexOf('\r\n\r\n'))),
      `message ${number} is complete`,
    );
  }
}
