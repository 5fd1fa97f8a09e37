/**
 * Checks the tables of docs/explanation/delivery-behavior.md cell by cell: a server with one fault at one stage, alone or with a healthy
 * second one. Each cell states who has the message, how many copies, with or without TLS, whether an attempt counts, whether the
 * destination is paused, and whether an address is suppressed.
 */
import assert from 'node:assert/strict';
import { after, before, type TestContext, test } from 'node:test';
import { parseCidrs } from '../../src/net/address-guard.ts';
import { openDns } from '../../src/net/dns.ts';
import { blackHole, noBlackHoles } from '../kit/black-hole.ts';
import { NO_CELL, tableOf } from '../kit/deliveries-page.ts';
import { deliveryRig, type Rig } from '../kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../kit/fake-dns.ts';
import {
  BEHAVIOURS,
  type Behaviour,
  type FaultyServer,
  faultyServer,
  STAGES,
  type Stage,
} from '../kit/faulty-server.ts';
import { freePort } from '../kit/free-ports.ts';
import { type SmtpSink, smtpSink } from '../kit/smtp-sink.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';

/** For servers that stall; other servers get unlimited time, however slow this machine is. */
const SHORT_MS = 10_000;
const LONG_MS = 60_000;
const SECOND = '127.0.4.1';
const NOBODY = '127.0.4.2';
const HOLE = '127.0.4.3';
const HEAD = 'From: orders@shop.example\r\nSubject: Hello\r\nMessage-ID: <1@shop.example>\r\n\r\n';
const LINE = `${'x'.repeat(70)}\r\n`;
/** More than the kernel buffers for a client that does not read. */
const LARGE = HEAD + LINE.repeat(200_000);
const SEVERAL_BLOCKS = HEAD + LINE.repeat(15_000);

interface Cell {
  stage: Stage;
  behaviour: Behaviour;
  domain: string;
  wanted: string;
  server: FaultyServer | undefined;
}

interface Seen {
  cell: Cell;
  id: string;
  word: string;
}

let port: number;
let dns: FakeDns;
let resolver: ReturnType<typeof openDns>;
let second: SmtpSink;
let hole: { close(): Promise<void> } | undefined;
const servers: FaultyServer[] = [];

before(async () => {
  port = await freePort();
  dns = await fakeDns({});
  resolver = openDns({ servers: [dns.server] });
  second = await smtpSink({ host: SECOND, port, tls: 'starttls' });
  hole = noBlackHoles ? undefined : await blackHole(HOLE, port);
});

after(async () => {
  for (const server of servers) await server.close();
  await second?.close();
  await hole?.close();
  resolver?.close();
  await dns?.close();
});

/** Where a server with this fault listens; connection faults have no server. */
async function startFaulty(stage: Stage, behaviour: Behaviour): Promise<{ address: string; server?: FaultyServer }> {
  if (stage === 'connect' && behaviour !== 'as expected') return { address: behaviour === 'stalls' ? HOLE : NOBODY };
  const number = servers.length + 1;
  const address = `127.0.${5 + (number >> 8)}.${number & 255}`;
  const server = await faultyServer({ host: address, port, certificate: testCertificate() }, { stage, behaviour });
  servers.push(server);
  return { address, server };
}

async function cellsOf(heading: string, exchangers: 1 | 2): Promise<Cell[]> {
  const cells: Cell[] = [];
  const table = tableOf(heading);
  for (const stage of STAGES) {
    for (const behaviour of BEHAVIOURS) {
      const wanted = table.get(`${stage} ${behaviour}`)!;
      if (wanted === NO_CELL || (noBlackHoles && stage === 'connect' && behaviour === 'stalls')) continue;
      const name = `${stage} ${behaviour} ${exchangers}`.toLowerCase().replace(/[^a-z0-9]+/g, '-');
      const domain = `${name}.example`;
      const { address, server } = await startFaulty(stage, behaviour);
      const all: [number, string][] = [
        [10, `mx1.${domain}`],
        [20, `mx2.${domain}`],
      ];
      dns.zone[domain] = { MX: all.slice(0, exchangers) };
      dns.zone[`mx1.${domain}`] = { A: [address] };
      dns.zone[`mx2.${domain}`] = { A: [SECOND] };
      cells.push({ stage, behaviour, domain, wanted, server });
    }
  }
  return cells;
}

const isSilent = ({ behaviour }: Cell): boolean => behaviour === 'stalls' || behaviour === 'endless reply, dripping';

function makeRig(patienceMs: number): Promise<Rig> {
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  const stages = ['connect', 'connectAddress', 'banner', 'greeting', 'tls', 'envelope', 'content', 'dot'];
  return deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: port, mxAllow: allowed.cidrs },
    deps: { timeouts: Object.fromEntries(stages.map((stage) => [`${stage}Ms`, patienceMs])) },
  });
}

function contentFor({ stage, behaviour }: Cell): string {
  if (stage !== 'content') return `${HEAD}Hello\r\n`;
  return behaviour === 'stalls' || behaviour === 'endless line' ? LARGE : SEVERAL_BLOCKS;
}

const outcomesOf = (rig: Rig, id: string) => rig.events(id).filter((one) => one.type !== 'Send');
const isPaused = (rig: Rig, { domain }: Cell): boolean =>
  rig.delivery.state().pausedDestinations.some(({ key }) => key.includes(domain));

/** The result of the first attempt, in the words of the documentation. */
function wordFor(rig: Rig, cell: Cell, id: string): string {
  const [{ type, detail }] = outcomesOf(rig, id) as [ReturnType<typeof outcomesOf>[number]];
  if (type === 'Bounce') return detail.bounce!.suppressed ? 'suppress' : 'bounce';
  if (type === 'DeliveryDelay') return isPaused(rig, cell) ? 'pause' : 'waits';
  const { remoteHost, tls } = detail.delivery!;
  return String(remoteHost).startsWith('mx2.') ? 'second' : tls === null ? 'clear' : 'delivered';
}

/** One message for each cell, each from a separate account, all at the same time. */
function firstAttempts(rig: Rig, cells: Cell[]): Promise<Seen[]> {
  return Promise.all(
    cells.map(async (cell, index): Promise<Seen> => {
      const content = contentFor(cell);
      const blob = cell.stage === 'content';
      const [id] = await rig.send({ to: [`a@${cell.domain}`], accountId: `acc_${index}`, content, blob });
      await waitUntil(`an outcome for ${cell.domain}`, () => outcomesOf(rig, id!).length > 0, 60_000);
      return { cell, id: id!, word: wordFor(rig, cell, id!) };
    }),
  );
}

/** The copies at each of the two servers: one in total if it was delivered, and none if it was rejected. */
function assertCopies({ cell, word }: Seen): void {
  const recipient = `a@${cell.domain}`;
  const atFirst = cell.server?.taken.filter((one) => one === recipient).length ?? 0;
  const atSecond = second.messages.filter(({ to }) => to.includes(recipient)).length;
  const wanted = word === 'delivered' || word === 'clear' ? [1, 0] : word === 'second' ? [0, 1] : [0, 0];
  assert.deepEqual([atFirst, atSecond], wanted, `${cell.domain}: copies at the first and the second`);
}

function assertTable(rig: Rig, seen: Seen[]): void {
  const differences = seen
    .filter(({ cell, word }) => cell.wanted.split(', ')[0] !== word)
    .map(({ cell, word, id }) => {
      const [attempt] = rig.attempts(id);
      return `${cell.stage}, ${cell.behaviour}: ${word}, and not ${cell.wanted} (${attempt?.host}: ${attempt?.reply})`;
    });
  assert.deepEqual(differences, []);
  for (const one of seen) {
    assertCopies(one);
    assert.equal(rig.attempts(one.id).length, 1, `${one.cell.domain}: one attempt is counted`);
  }
  const suppressed = rig.rows<{ email: string }>('SELECT email FROM suppression').map(({ email }) => email);
  const wanted = seen.filter(({ cell }) => cell.wanted === 'suppress').map(({ cell }) => `a@${cell.domain}`);
  assert.deepEqual(suppressed.sort(), wanted.sort());
}

/** A message accepted while an MX host is paused goes to the second one, or is deferred without a connection or an attempt. */
async function assertRest(rig: Rig, seen: Seen[], hasSecond: boolean): Promise<void> {
  await Promise.all(
    seen
      .filter(({ word }) => word === 'pause')
      .map(async ({ cell }, index) => {
        const before = cell.server?.connections;
        const [id] = (await rig.send({ to: [`b@${cell.domain}`], accountId: `late_${index}` })) as [string];
        const [status, attempts] = hasSecond ? ['delivered', 1] : ['delayed', 0];
        await waitUntil(`${cell.domain}: the next mail to be ${status}`, () => rig.status(id) === status);
        assert.equal(rig.attempts(id).length, attempts, `${cell.domain}: queued messages count no attempt`);
        assert.equal(cell.server?.connections, before, `${cell.domain}: no connection while it is paused`);
      }),
  );
}

/** The cells in two parts, with shorter timeouts for stalling servers; the table is checked in each. */
async function check(
  t: TestContext,
  cells: Cell[],
  { hasSecond, also }: { hasSecond: boolean; also?: (rig: Rig, seen: Seen[]) => Promise<void> },
): Promise<void> {
  t.diagnostic(`${cells.length} cells`);
  const parts: [Cell[], number][] = [
    [cells.filter((cell) => !isSilent(cell)), LONG_MS],
    [cells.filter(isSilent), SHORT_MS],
  ];
  for (const [part, patienceMs] of parts) {
    const rig = await makeRig(patienceMs);
    t.after(() => rig.close());
    const seen = await firstAttempts(rig, part);
    assertTable(rig, seen);
    await assertRest(rig, seen, hasSecond);
    await also?.(rig, seen);
  }
}

test('one MX host: every cell of the table', { timeout: 240_000 }, async (t) => {
  await check(t, await cellsOf('One MX host', 1), { hasSecond: false });
});

test('two MX hosts, the second one healthy: every cell of the table, and retries use the second', {
  timeout: 240_000,
}, async (t) => {
  const also = async (rig: Rig, seen: Seen[]): Promise<void> => {
    const waiting = seen.filter(({ word }) => word === 'waits' || word === 'pause');
    rig.clock.advance(70_000);
    await Promise.all(
      waiting.map(async ({ cell, id }) => {
        await waitUntil(`a second outcome for ${cell.domain}`, () => rig.attempts(id).length === 2, 60_000);
        await waitUntil(`it to be recorded for ${cell.domain}`, () => rig.status(id) !== 'sending');
        const isBySecond = second.messages.filter(({ to }) => to.includes(`a@${cell.domain}`)).length === 1;
        const word = rig.status(id) === 'delivered' && isBySecond ? 'second' : rig.status(id);
        assert.equal(word, cell.wanted.split(', ')[1], cell.domain);
      }),
    );
  };
  await check(t, await cellsOf('Two MX hosts', 2), { hasSecond: true, also });
});
