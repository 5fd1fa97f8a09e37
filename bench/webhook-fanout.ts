/**
 * Webhook fan-out compared with its baseline, interleaved in one run: waiting events of the store, claimed, signed, posted to a sink in
 * another process, with durable results; the same with up to 100 events per request; and a plain undici Pool that posts signed bodies of the
 * same size over 50 connections. Prints the median ratios and their spread.
 *
 * node bench/webhook-fanout.ts [--rounds 5] [--events 12000] [--seconds 2] [--batch 100]
 */
import { fork } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { parseArgs } from 'node:util';
import { Pool } from 'undici';
import { systemClock } from '../src/base/clock.ts';
import { newId } from '../src/base/ids.ts';
import { silentLog } from '../src/base/log.ts';
import { seal } from '../src/base/seal.ts';
import { WEBHOOK_WORK } from '../src/events/events.ts';
import { parseCidrs } from '../src/net/address-guard.ts';
import { openHttpClient } from '../src/net/http-client.ts';
import { sealContext } from '../src/webhooks/endpoints.ts';
import { newSecret } from '../src/webhooks/sign.ts';
import { createEndpointOperation } from '../src/webhooks/store.ts';
import { startWebhooks } from '../src/webhooks/webhooks.ts';
import { backlogOperation } from '../src/work/work.ts';
import { foundAnswer } from '../test/kit/fake-dns.ts';
import { seedMail } from '../test/kit/seed-mail.ts';
import { tempDatabase } from '../test/kit/temp-database.ts';
import { waitUntil } from '../test/kit/wait-until.ts';

const CONNECTIONS = 50;
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    events: { type: 'string', default: '12000' },
    seconds: { type: 'string', default: '2' },
    batch: { type: 'string', default: '100' },
    sink: { type: 'boolean', default: false },
  },
});

function serveSink(): void {
  const server = createServer((request, response) => {
    request.resume();
    request.on('end', () => {
      response.writeHead(204);
      response.end();
    });
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('disconnect', () => process.exit(0));
}

async function bareRound(port: number, body: string, seconds: number): Promise<number> {
  const pool = new Pool(`http://127.0.0.1:${port}`, { connections: CONNECTIONS, pipelining: 1 });
  const start = performance.now();
  const end = start + seconds * 1000;
  let count = 0;
  const loop = async (): Promise<void> => {
    while (performance.now() < end) {
      const answer = await pool.request({
        path: '/hook',
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'webhook-id': 'evt_1',
          'webhook-signature': `v1,${createHmac('sha256', 'secret').update(body).digest('base64')}`,
        },
        body,
      });
      await answer.body.dump();
      count += 1;
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, loop));
  const rate = count / ((performance.now() - start) / 1000);
  await pool.close();
  return rate;
}

async function ourRound(port: number, events: number, maxBatch: number): Promise<number> {
  const allow = parseCidrs('127.0.0.0/8');
  if (!allow.ok) throw new Error('not a CIDR');
  const temp = await tempDatabase();
  const { database } = temp;
  const secretKey = randomBytes(32);
  const accountId = newId('acc');
  const id = newId('whk');
  await database.execute(createEndpointOperation, {
    ...{ id, accountId, mode: 'live', url: `http://127.0.0.1:${port}/hook`, description: null, enabled: true },
    events: '["Send"]',
    maxBatch,
    secretSealed: seal(secretKey, newSecret(), sealContext(id)),
    nowMs: Date.now(),
  });
  for (let made = 0; made < events; made += 1_000) {
    const subject = 'Your order is on its way'.padEnd(220, '.');
    const many = Math.min(1_000, events - made);
    await Promise.all(Array.from({ length: many }, () => seedMail(database, { accountId, subject })));
  }
  const http = openHttpClient({
    lookup: async (host) => foundAnswer([host]),
    allow: allow.cidrs,
    connectionsPerOrigin: CONNECTIONS,
  });
  let succeeded = 0;
  const metrics = {
    webhookAttempts: {
      succeeded: {
        inc: () => {
          succeeded += 1;
        },
      },
      failed: { inc: () => {} },
    },
    webhookLagSeconds: { observe: () => {} },
  };
  const start = performance.now();
  const worker = startWebhooks({ database, http, clock: systemClock, log: silentLog, secretKey, metrics });
  const depth = async (): Promise<number> => (await database.execute(backlogOperation, WEBHOOK_WORK)).depth;
  await waitUntil('all events to be settled', async () => succeeded >= events && (await depth()) === 0, 60_000);
  const rate = events / ((performance.now() - start) / 1000);
  await worker.stop();
  await http.close();
  await temp.close();
  return rate;
}

function median(list: number[]): number {
  return [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]!;
}

function shown(list: number[], digits: number): string {
  const text = (value: number): string => value.toFixed(digits);
  return `${text(median(list))} (${text(Math.min(...list))} to ${text(Math.max(...list))})`;
}

async function main(): Promise<void> {
  const sink = fork(import.meta.filename, ['--sink']);
  const port = await new Promise<number>((resolve) => sink.once('message', (message) => resolve(Number(message))));
  const body = JSON.stringify({ eventId: newId('evt'), filler: ''.padEnd(500, 'x') });
  const bare: number[] = [];
  const ours: number[] = [];
  const batched: number[] = [];
  await bareRound(port, body, 0.5);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    bare.push(await bareRound(port, body, Number(values.seconds)));
    ours.push(await ourRound(port, Number(values.events), 1));
    batched.push(await ourRound(port, Number(values.events), Number(values.batch)));
  }
  sink.disconnect();
  const ratios = (rates: number[]): number[] => rates.map((rate, index) => rate / bare[index]!);
  console.log(`bare undici Pool   ${shown(bare, 0)} requests/s`);
  console.log(`webhook fan-out    ${shown(ours, 0)} events/s`);
  console.log(`in batches         ${shown(batched, 0)} events/s`);
  console.log(`ratio              ${shown(ratios(ours), 2)}`);
  console.log(`ratio, in batches  ${shown(ratios(batched), 2)}`);
}

if (values.sink) serveSink();
else await main();
