/** The event stream on two nodes that share a database: the followed node is killed, and the stream resumes on the other. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Api, apiClient } from '../kit/api.ts';
import { type Cluster, startCluster } from '../kit/cluster.ts';
import { waitUntil } from '../kit/wait-until.ts';

let cluster: Cluster;
let api: Api;

before(async () => {
  cluster = await startCluster({ nodes: 2 });
  api = apiClient(() => cluster.nodes[1]!.url, cluster.nodes[0]!.sandbox);
});
after(async () => {
  api?.close();
  await cluster?.close();
});

const QUERY = 'tag=even&eventType=Send&eventType=Delivery';

interface Follower {
  /** Ids of events in the order in which they arrived. */
  seen: string[];
  lastId: string | undefined;
}

/** Follows a node until the connection breaks or the signal is aborted. */
async function follow(url: string, follower: Follower, signal: AbortSignal): Promise<void> {
  const { apiKey, accountId } = cluster.nodes[0]!.sandbox;
  const headers = {
    'x-api-key': apiKey,
    'x-id': accountId,
    ...(follower.lastId !== undefined && { 'last-event-id': follower.lastId }),
  };
  try {
    const response = await fetch(`${url}/events/stream?${QUERY}`, { headers, signal });
    assert.equal(response.status, 200);
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      const blocks = (text + chunk).split('\n\n');
      text = blocks.pop()!;
      for (const block of blocks) {
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (data !== undefined) follower.seen.push((JSON.parse(data) as { eventId: string }).eventId);
        follower.lastId = /^id: (.*)$/m.exec(block)?.[1] ?? follower.lastId;
      }
    }
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
  }
}

test('resuming on another node during writes neither misses nor repeats events', async () => {
  const [first, second] = cluster.nodes;
  const controller = new AbortController();
  const follower: Follower = { seen: [], lastId: undefined };
  const lost = follow(first!.url, follower, controller.signal);
  await waitUntil('the stream to start', () => follower.lastId !== undefined);
  const started = follower.lastId;
  let isOver = false;
  const mail = { from: 'a@shop.example', subject: 'Hello', text: 'Hello' };
  const writers = Array.from({ length: 4 }, async (_, writer) => {
    for (let i = 0; !isOver; i += 1) {
      const to = `r${writer}-${i}@example.com`;
      const sent = await api.post('/send', { ...mail, to, tags: [i % 2 === 0 ? 'even' : 'odd'] });
      assert.equal(sent.status, 202, sent.text);
    }
  });
  await waitUntil('events to arrive', () => follower.seen.length > 20);
  await first!.kill('SIGKILL');
  await lost;
  const before = follower.seen.length;
  const resumed = follow(second!.url, follower, controller.signal);
  await waitUntil('as many events from the other node', () => follower.seen.length > before + 20);
  isOver = true;
  await Promise.all(writers);
  const log = async (): Promise<string[]> => {
    const ids: string[] = [];
    for (let cursor: string | undefined = started; cursor !== undefined; ) {
      const page = await api.get(`/events?${QUERY}&order=asc&limit=100&cursor=${cursor}`);
      assert.equal(page.status, 200, page.text);
      const body = page.body as unknown as { eventId: string; tags: string[] }[];
      assert.ok(body.every(({ tags }) => tags[0] === 'even'));
      ids.push(...body.map(({ eventId }) => eventId));
      cursor = page.headers.link === undefined ? undefined : page.headers['x-next-cursor'];
    }
    return ids;
  };
  const whole = await log();
  await waitUntil('the stream to reach the end of the log', () => follower.seen.length >= whole.length);
  assert.deepEqual(follower.seen.slice(0, whole.length), whole);
  controller.abort();
  await resumed;
});
