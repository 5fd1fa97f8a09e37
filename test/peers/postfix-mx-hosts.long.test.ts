/**
 * Debian's Postfix as the sender to the faulty servers of docs/explanation/delivery-behavior.md, each with a healthy second MX host: after
 * its first attempt the message is at the first, at the second, or at neither, as documented for Postrider, except for the documented
 * intentional differences. Counted at the servers, and read from Postfix's log.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { openSmtpSession } from '../../src/net/smtp-client.ts';
import { blackHole, noBlackHoles } from '../kit/black-hole.ts';
import { NO_CELL, rowsOf, tableOf } from '../kit/deliveries-page.ts';
import {
  BEHAVIOURS,
  type Behaviour,
  type FaultyServer,
  faultyServer,
  STAGES,
  type Stage,
} from '../kit/faulty-server.ts';
import { freePort } from '../kit/free-ports.ts';
import { missing, notAllowed } from '../kit/requirements.ts';
import { smtpSink } from '../kit/smtp-sink.ts';
import { testCertificate } from '../kit/test-certificate.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { noPrivateDns, startPrivateDns } from './private-dns.ts';
import { type PrivatePostfix, startPostfix } from './private-postfix.ts';

const skip =
  missing('postfix', 'openssl', 'unshare') ||
  noPrivateDns() ||
  (process.getuid?.() === 0 ? false : 'a private Postfix needs root') ||
  notAllowed('mount file systems', () => void execFileSync('unshare', ['--mount', 'true'], { stdio: 'pipe' }));

const [SECOND, NOBODY, HOLE] = ['127.0.8.1', '127.0.8.2', '127.0.8.3'];
const PATIENCE = '20s';
const HEAD = 'From: a@shop.example\r\nSubject: x\r\nMessage-ID: <1@shop.example>\r\n\r\n';
/** Several blocks long, so that a reply in the middle comes before the dot. */
const CONTENT = Buffer.from(HEAD + `${'x'.repeat(70)}\r\n`.repeat(3_000));

const SENDING = {
  smtp_tls_security_level: 'may',
  smtp_tls_protocols: '>=TLSv1.2',
  mynetworks: '127.0.0.0/8',
  smtpd_relay_restrictions: 'permit_mynetworks, reject_unauth_destination',
  smtp_dns_support_level: 'enabled',
  smtp_host_lookup: 'dns',
  ...Object.fromEntries(
    ['connect', 'helo', 'starttls', 'mail', 'rcpt', 'data_init', 'data_xfer', 'data_done'].map((stage) => [
      `smtp_${stage}_timeout`,
      PATIENCE,
    ]),
  ),
  // The timeout covers an entire reply, as Postrider's does, and not each part.
  smtp_per_request_deadline: 'yes',
  // Otherwise many silent servers at the same time would wait for each other.
  default_process_limit: '200',
  // One attempt.
  queue_run_delay: '1h',
  minimal_backoff_time: '1h',
};

type Fate = 'first' | 'second' | 'waits' | 'bounce';

/** The documented results of a first attempt, by where the message is then. */
const FATES: Record<string, Fate> = {
  delivered: 'first',
  clear: 'first',
  second: 'second',
  waits: 'waits',
  pause: 'waits',
  bounce: 'bounce',
  suppress: 'bounce',
};

interface Cell {
  stage: Stage;
  behaviour: Behaviour;
  name: string;
  ours: Fate;
  address: string;
  server: FaultyServer | undefined;
}

/** Excludes what only content larger than all buffers in between would show. */
const isLeftOut = (stage: Stage, behaviour: Behaviour): boolean =>
  (stage === 'content' && (behaviour === 'stalls' || behaviour === 'endless line')) ||
  (noBlackHoles !== false && stage === 'connect' && behaviour === 'stalls');

async function startCells(t: TestContext, port: number): Promise<Cell[]> {
  const table = tableOf('Two MX hosts');
  const cells: Cell[] = [];
  for (const stage of STAGES) {
    for (const behaviour of BEHAVIOURS) {
      const wanted = table.get(`${stage} ${behaviour}`)!;
      if (wanted === NO_CELL || isLeftOut(stage, behaviour)) continue;
      const name = `${stage} ${behaviour}`.toLowerCase().replace(/[^a-z0-9]+/g, '-');
      const common = { stage, behaviour, name, ours: FATES[wanted.split(', ')[0]!]! };
      if (stage === 'connect' && behaviour !== 'as expected') {
        cells.push({ ...common, address: behaviour === 'stalls' ? HOLE : NOBODY, server: undefined });
        continue;
      }
      const address = `127.0.9.${cells.length + 1}`;
      const server = await faultyServer({ host: address, port, certificate: testCertificate() }, { stage, behaviour });
      t.after(server.close);
      cells.push({ ...common, address, server });
    }
  }
  return cells;
}

async function sendBy(postfix: PrivatePostfix, recipients: string[]): Promise<void> {
  const opened = await openSmtpSession({
    host: 'localhost',
    addresses: ['127.0.0.1'],
    port: postfix.port,
    helo: 'tester.example',
    tls: 'never',
    verifyCertificate: false,
  });
  assert.ok(opened.ok, JSON.stringify(opened));
  for (const recipient of recipients) {
    const sent = await opened.session.send({
      mailFrom: 'a@shop.example',
      recipients: [recipient],
      content: CONTENT,
      sizeBytes: CONTENT.length,
      smtpUtf8: false,
      eightBit: false,
    });
    assert.equal(sent.recipients[0]!.accepted, true, JSON.stringify(sent));
  }
  await opened.session.quit();
}

/** What Postfix logs about its first attempt. */
function statusBy(postfix: PrivatePostfix, recipient: string): Promise<{ status: string; said: string }> {
  const line = new RegExp(`to=<${recipient}>, (.* status=(\\w+) .*)`);
  return waitUntil(
    `Postfix to try ${recipient}`,
    () => {
      const [, said, status] = line.exec(postfix.log()) ?? [];
      return status !== undefined && said !== undefined && { status, said };
    },
    120_000,
  );
}

/** `stage, fault` → the documented results of Postrider and of Postfix. */
function knownDifferences(): Map<string, string> {
  const [, , ...rows] = rowsOf('Comparison with Postfix');
  const named = (text: string): string[] => [...text.matchAll(/`([^`]+)`/g)].map(([, one]) => one!);
  return new Map(
    rows.flatMap(([stages, faults, ours, postfix]) =>
      named(stages!).flatMap((stage) =>
        named(faults!).map((fault): [string, string] => [`${stage}, ${fault}`, `${ours}, and not ${postfix}`]),
      ),
    ),
  );
}

test('two MX hosts, the second one healthy: status of the message after the first attempt', {
  skip,
  timeout: 400_000,
}, async (t) => {
  const port = await freePort();
  const second = await smtpSink({ host: SECOND, port, tls: 'starttls' });
  t.after(second.close);
  const hole = noBlackHoles ? undefined : await blackHole(HOLE, port);
  t.after(() => hole?.close());
  const cells = await startCells(t, port);
  const records = cells.flatMap(({ name, address }) => [
    `${name} MX 10 mx1.${name}`,
    `${name} MX 20 mx2.${name}`,
    `mx1.${name} A ${address}`,
    `mx2.${name} A ${SECOND}`,
  ]);
  const resolverAddress = `127.53.${randomInt(256)}.${randomInt(1, 255)}`;
  const zones = await startPrivateDns({ 'two.test': { records } }, { resolverAddress });
  t.after(zones.close);
  const routes = cells.map(({ name }) => `{ ${name}.two.test = smtp:${name}.two.test:${port} }`);
  const postfix = await startPostfix({
    domain: 'mailboxes.example',
    users: [],
    resolverAddress,
    settings: { ...SENDING, transport_maps: `inline:{ ${routes.join(', ')} }` },
  });
  t.after(() => postfix.stop());
  await sendBy(
    postfix,
    cells.map(({ name }) => `a@${name}.two.test`),
  );
  const found = new Map<string, string>();
  for (const { stage, behaviour, name, ours, server } of cells) {
    const recipient = `a@${name}.two.test`;
    const { status, said } = await statusBy(postfix, recipient);
    const refused: Record<string, Fate> = { deferred: 'waits', bounced: 'bounce' };
    const fate = refused[status] ?? (said.includes('relay=mx2.') ? 'second' : 'first');
    const atSecond = second.messages.filter(({ to }) => to.includes(recipient)).length;
    assert.equal(atSecond, fate === 'second' ? 1 : 0, `${name}: ${said}`);
    if (fate === 'first') assert.deepEqual(server!.taken, [recipient], `${name}: ${said}`);
    if (fate !== ours) found.set(`${stage}, ${behaviour}`, `${ours}, and not ${fate}`);
  }
  t.diagnostic(`${cells.length} cells, ${found.size} of them different`);
  assert.deepEqual([...found].sort(), [...knownDifferences()].sort());
});
