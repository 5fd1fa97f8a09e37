/**
 * MX hosts with several addresses, some of which fail at some stage: every address is tried before its host counts as failed (RFC 5321
 * §5.1), in the same attempt. Counted at the servers: how often each was tried, and that no recipient gets a duplicate.
 */
import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { after, before, test } from 'node:test';
import { deliveryRig, type Rig } from '../../../test/kit/delivery-rig.ts';
import { type FakeDns, fakeDns } from '../../../test/kit/fake-dns.ts';
import { freePort } from '../../../test/kit/free-ports.ts';
import {
  type SinkAction,
  type SinkOptions,
  type SinkStage,
  type SmtpSink,
  smtpSink,
} from '../../../test/kit/smtp-sink.ts';
import { waitUntil } from '../../../test/kit/wait-until.ts';
import { parseCidrs } from '../../net/address-guard.ts';
import { openDns } from '../../net/dns.ts';

let dns: FakeDns;
let resolver: ReturnType<typeof openDns>;
let rig: Rig;
let port: number;
const sinks: SmtpSink[] = [];
const TIMEOUTS = { bannerMs: 1_500, greetingMs: 1_500, envelopeMs: 2_500, dotMs: 2_500 };

before(async () => {
  port = await freePort();
  dns = await fakeDns({});
  resolver = openDns({ servers: [dns.server] });
  const allowed = parseCidrs('127.0.0.0/8');
  assert.ok(allowed.ok);
  rig = await deliveryRig({
    routing: { route: { kind: 'mx' }, dns: resolver, mxPort: port, mxAllow: allowed.cidrs },
    deps: { timeouts: TIMEOUTS },
  });
});

after(async () => {
  await rig?.close();
  for (const sink of sinks) await sink.close();
  resolver?.close();
  await dns?.close();
});

let addresses = 0;

/** Creates a domain whose hosts, of preferences 10, 20, …, have these servers at their addresses; null is an address without a listener. */
async function domain(name: string, hosts: (SinkOptions | null)[][]): Promise<SmtpSink[][]> {
  const started: SmtpSink[][] = [];
  const mx: [number, string][] = [];
  for (const [index, servers] of hosts.entries()) {
    const host = `mx${index + 1}.${name}`;
    const own: { address: string; options: SinkOptions | null }[] = servers.map((options) => {
      addresses += 1;
      return { address: `127.0.3.${addresses}`, options };
    });
    dns.zone[host] = { A: own.map(({ address }) => address) };
    mx.push([(index + 1) * 10, host]);
    started.push([]);
    for (const { address, options } of own) {
      if (options) started[index]!.push(await smtpSink({ ...options, host: address, port }));
    }
  }
  dns.zone[name] = { MX: mx };
  sinks.push(...started.flat());
  return started;
}

const typesOf = (id: string): string[] => rig.events(id).map((one) => one.type);
const event = (id: string, type: string) =>
  waitUntil(`${type} of ${id}, which has ${typesOf(id)}`, () => rig.events(id).find((one) => one.type === type));
const addressesOf = (id: string): string[] =>
  (rig.attempts(id) as unknown as { address: string }[]).map(({ address }) => address);
const total = (sink: SmtpSink): number => sink.connections.total;

const RESET: SinkAction = { drop: true };
const STALL: SinkAction = { silent: true };
/** Failures of the bad address, at each stage before the final dot. */
const FAULTS: [SinkStage, Record<string, SinkAction>][] = [
  ['banner', { close: RESET, stall: STALL, '421': '421 4.3.2 closing', '554': '554 5.3.2 no service here' }],
  ['ehlo', { reset: RESET, stall: STALL, '421': '421 4.3.2 closing' }],
  ['mail', { reset: RESET, '421': '421 4.3.2 closing', '451': '451 4.3.0 later' }],
  ['rcpt', { reset: RESET, stall: STALL, '421': '421 4.3.2 closing', '451': '451 4.3.0 later' }],
  ['data', { reset: RESET, '421': '421 4.3.2 closing', '451': '451 4.3.0 later' }],
];

test('if one address of a host fails before the dot, the other gets the message in the same attempt', async () => {
  const cells = FAULTS.flatMap(([stage, actions]) =>
    Object.entries(actions).map(([name, action]) => ({ stage, name, action })),
  );
  assert.equal(cells.length, 17);
  await Promise.all(
    cells.flatMap(({ stage, name, action }) =>
      [0, 1].map(async (bad) => {
        const cell = `${name}-${stage}-${bad}.example`;
        const servers: SinkOptions[] = [{}, {}];
        servers[bad] = { script: { [stage]: action } };
        const [sinksOfHost] = (await domain(cell, [servers])) as [SmtpSink[]];
        const good = sinksOfHost[1 - bad]!;
        const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
        const { detail } = await event(id, 'Delivery');
        assert.equal(detail.delivery!.attempts, 1, cell);
        assert.deepEqual(
          addressesOf(id),
          [good.host],
          `${cell}: the attempt names the address that accepted the message`,
        );
        assert.equal(good.messages.length, 1, cell);
        assert.equal(sinksOfHost[bad]!.messages.length, 0, cell);
        assert.ok(total(sinksOfHost[bad]!) <= 1, `${cell}: ${total(sinksOfHost[bad]!)} connections to the bad address`);
        assert.equal(total(good), 1, cell);
      }),
    ),
  );
});

test('a message on a reused session is tried at the other addresses of the host, as the first one is', async () => {
  const second: SinkOptions = {
    script: { mail: ({ occurrence }) => (occurrence === 2 ? '452 4.3.1 Insufficient system storage' : undefined) },
  };
  const [sinksOfHost] = (await domain('reused.example', [[second, second]])) as [SmtpSink[]];
  for (let sent = 1; sent <= 2; sent += 1) {
    const [id] = (await rig.send({ to: [`ann${sent}@reused.example`] })) as [string];
    assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 1, `message ${sent}`);
  }
  assert.deepEqual(
    sinksOfHost.map(({ messages }) => messages.length),
    [1, 1],
  );
  assert.deepEqual(sinksOfHost.map(total), [1, 1]);
});

test('the only working address of two hosts gets the message in the first attempt', async () => {
  const bad: SinkOptions[] = [
    { script: { banner: RESET } },
    { script: { ehlo: '421 4.3.2 closing' } },
    { script: { rcpt: '451 4.3.0 later' } },
  ];
  await Promise.all(
    [0, 1, 2, 3].map(async (good) => {
      const servers = bad.toSpliced(good, 0, {});
      const [first, second] = (await domain(`four-${good}.example`, [servers.slice(0, 2), servers.slice(2)])) as [
        SmtpSink[],
        SmtpSink[],
      ];
      const [id] = (await rig.send({ to: [`ann@four-${good}.example`] })) as [string];
      assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 1);
      const all = [...first, ...second];
      assert.deepEqual(
        all.map(({ messages }) => messages.length),
        all.map((_, index) => (index === good ? 1 : 0)),
      );
      assert.deepEqual(
        all.map(total),
        all.map((_, index) => (index <= good ? 1 : 0)),
        'in order of preference, each once',
      );
    }),
  );
});

for (const [name, action] of Object.entries({ '421': '421 4.3.2 closing', '451': '451 4.3.0 later', reset: RESET })) {
  test(`after ${name} after the dot, the next attempt starts at the other address`, async () => {
    const cell = `dot-${name}.example`;
    const [[first, second]] = (await domain(cell, [[{ script: { dot: action } }, {}]])) as [[SmtpSink, SmtpSink]];
    const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
    await event(id, 'DeliveryDelay');
    assert.equal(total(second), 0, 'the first server may have the message');
    rig.clock.advance(70_000);
    assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 2);
    assert.equal(second.messages.length, 1);
    assert.equal(total(first), 1);
  });
}

test('a permanent failure for a recipient is not retried at the other address', async () => {
  const [[first, second]] = (await domain('gone.example', [
    [{ script: { rcpt: '550 5.1.1 no such user' } }, { script: { rcpt: '550 5.1.1 no such user' } }],
  ])) as [[SmtpSink, SmtpSink]];
  const [id] = (await rig.send({ to: ['ann@gone.example'] })) as [string];
  await event(id, 'Bounce');
  assert.deepEqual([total(first), total(second)], [1, 0]);
});

test('a full mailbox is not retried at the other address of the host', async () => {
  const full: SinkOptions = { script: { rcpt: '452 4.2.2 mailbox full' } };
  const [[first, second]] = (await domain('full.example', [[full, full]])) as [[SmtpSink, SmtpSink]];
  const [id] = (await rig.send({ to: ['ann@full.example'] })) as [string];
  await event(id, 'DeliveryDelay');
  assert.deepEqual([total(first), total(second)], [1, 0]);
});

test('an address that failed is tried last, including for the next messages', async () => {
  const [[first, second]] = (await domain('later.example', [[{ script: { banner: RESET } }, {}]])) as [
    [SmtpSink, SmtpSink],
  ];
  for (const name of ['ann', 'ben', 'cat']) {
    const [id] = (await rig.send({ to: [`${name}@later.example`] })) as [string];
    await event(id, 'Delivery');
  }
  assert.equal(total(first), 1);
  assert.equal(second.messages.length, 3);
});

/** A server that offers PIPELINING, reads the first line of each packet, and discards the others. */
async function lossyServer(
  address: string,
): Promise<{ packets: string[]; acceptedCount: () => number; close(): Promise<void> }> {
  const packets: string[] = [];
  let accepted = 0;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => sockets.delete(socket));
    socket.write('220 lossy ESMTP\r\n');
    let content: string | undefined;
    socket.on('data', (chunk) => {
      const text = chunk.toString('latin1');
      if (content !== undefined) {
        content += text;
        if (!content.endsWith('\r\n.\r\n')) return;
        content = undefined;
        accepted += 1;
        socket.write('250 2.0.0 taken\r\n');
        return;
      }
      packets.push(text);
      const [verb] = text.split(/[ \r]/);
      if (verb === 'EHLO') socket.write('250-lossy\r\n250 PIPELINING\r\n');
      else if (verb === 'DATA') {
        content = '';
        socket.write('354 go on\r\n');
      } else if (verb === 'QUIT') socket.end('221 bye\r\n');
      else socket.write('250 ok\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(port, address, resolve));
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  return { packets, acceptedCount: () => accepted, close };
}

test('a server that loses pipelined commands gets the message without PIPELINING, now and later', async () => {
  const address = '127.0.3.250';
  const server = await lossyServer(address);
  try {
    dns.zone['mx1.lossy.example'] = { A: [address] };
    dns.zone['lossy.example'] = { MX: [[10, 'mx1.lossy.example']] };
    const together = (): number => server.packets.filter((packet) => packet.indexOf('\r\n') < packet.length - 2).length;
    for (const [index, name] of ['ann', 'ben', 'cat'].entries()) {
      const [id] = (await rig.send({ to: [`${name}@lossy.example`] })) as [string];
      assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 1, name);
      assert.equal(server.acceptedCount(), index + 1);
      assert.equal(together(), 1, 'commands are pipelined once');
    }
  } finally {
    await server.close();
  }
});

for (const reply of ['554 SMTP synchronization error', '503 5.5.0 Improper use of SMTP command pipelining']) {
  test(`commands rejected together with ${reply} are sent one by one in the same attempt`, async () => {
    const cell = `refuses-${reply.slice(0, 3)}.example`;
    const [[sink]] = (await domain(cell, [
      [{ extensions: ['PIPELINING'], script: { rcpt: ({ occurrence }) => (occurrence === 1 ? reply : undefined) } }],
    ])) as [[SmtpSink]];
    const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
    assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 1);
    assert.equal(sink.messages.length, 1);
  });
}

/** What a server that does not support several commands per packet does after its reply to the first one. */
const LOST: Record<string, { rcpt: SinkAction; attempts: number }> = {
  'says 500 to the others': { rcpt: '500 5.5.2 unknown command', attempts: 1 },
  'says 503 to the others': { rcpt: '503 5.5.1 need MAIL first', attempts: 1 },
  closes: { rcpt: RESET, attempts: 2 },
  'replies with garbage': { rcpt: 'what is this', attempts: 2 },
};

for (const [name, { rcpt, attempts }] of Object.entries(LOST)) {
  test(`a server that ${name} on pipelined commands gets the message without PIPELINING`, async () => {
    const cell = `lost-${name.replace(/ /g, '-')}.example`;
    const script: SinkOptions['script'] = { rcpt: ({ occurrence }) => (occurrence === 1 ? rcpt : undefined) };
    const [[sink]] = (await domain(cell, [[{ extensions: ['PIPELINING'], script }]])) as [[SmtpSink]];
    const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
    if (attempts === 2) {
      await event(id, 'DeliveryDelay');
      rig.clock.advance(70_000);
    }
    assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, attempts);
    assert.equal(sink.messages.length, 1);
  });
}

test('a slow server that answers each command in time keeps PIPELINING', async () => {
  const slow: SinkAction = { delayMs: 300 };
  const [[sink]] = (await domain('slow.example', [
    [{ extensions: ['PIPELINING'], script: { mail: slow, rcpt: slow, data: slow } }],
  ])) as [[SmtpSink]];
  const to = ['ann', 'ben', 'cat'].map((name) => `${name}@slow.example`);
  const ids = await rig.send({ to });
  for (const id of ids) await event(id, 'Delivery');
  assert.equal(total(sink), 1);
});

test('a server that rejects a second message on a connection gets one message per connection', async () => {
  const refusals = ['503 5.5.1 sender already given', '550 5.5.1 only one message per connection', '421 4.7.0 bye'];
  await Promise.all(
    refusals.map(async (reply, index) => {
      const cell = `once-${index}.example`;
      const mails = new Map<number, number>();
      const once = ({ session }: { session: number }): SinkAction | undefined => {
        mails.set(session, (mails.get(session) ?? 0) + 1);
        return mails.get(session)! > 1 ? reply : undefined;
      };
      const [[sink]] = (await domain(cell, [[{ script: { mail: once } }]])) as [[SmtpSink]];
      for (const name of ['ann', 'ben', 'cat']) {
        const [id] = (await rig.send({ to: [`${name}@${cell}`] })) as [string];
        assert.equal((await event(id, 'Delivery')).detail.delivery!.attempts, 1, `${reply}: ${name}`);
      }
      assert.equal(sink.messages.length, 3, reply);
      if (!reply.startsWith('421')) {
        const asked = [...mails.values()];
        assert.deepEqual(asked, [2, 1, 1], `${reply}: the session is not reused for a second message`);
      }
    }),
  );
});

test('a server that requires TLS after a failed STARTTLS causes a TLS failure that is retried', async () => {
  const demands = [
    '530 5.7.0 Must issue a STARTTLS command first',
    '550 5.7.10 Encryption required',
    '554 5.7.3 TLS is required for this recipient',
  ];
  await Promise.all(
    demands.flatMap((demand, index) =>
      (['mail', 'rcpt'] as const).map(async (stage) => {
        const cell = `demands-${index}-${stage}.example`;
        await domain(cell, [
          [{ tls: 'starttls', script: { starttls: '454 4.7.0 TLS not available', [stage]: demand } }],
        ]);
        const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
        const { detail } = await event(id, 'DeliveryDelay');
        assert.equal(detail.deliveryDelay!.category, 'tls', `${demand} at ${stage}`);
      }),
    ),
  );
});

for (const code of ['554 5.3.2 no SMTP service here', '421 4.3.2 try later']) {
  test(`QUIT is sent after a ${code} banner`, async () => {
    const cell = `quit-${code.slice(0, 3)}.example`;
    const [[sink]] = (await domain(cell, [[{ script: { banner: code } }]])) as [[SmtpSink]];
    const [id] = (await rig.send({ to: [`ann@${cell}`] })) as [string];
    await event(id, 'DeliveryDelay');
    await waitUntil('QUIT', () => sink.commands.includes('QUIT'));
    await waitUntil('the end of the connection', () => sink.connections.now === 0);
  });
}

test('a relay address that hangs up is replaced by the other one in the same attempt', async () => {
  const bad = await smtpSink({ host: '127.0.3.251', port, script: { ehlo: RESET } });
  const good = await smtpSink({ host: '127.0.3.252', port });
  sinks.push(bad, good);
  dns.zone['relay.example'] = { A: [bad.host, good.host] };
  const relay = { host: 'relay.example', port, implicitTls: false };
  const relayed = await deliveryRig({
    routing: { route: { kind: 'relay', relay }, dns: resolver },
    deps: { timeouts: TIMEOUTS },
  });
  try {
    const [id] = (await relayed.send({ to: ['ann@anywhere.example'] })) as [string];
    const { detail } = await waitUntil('Delivery', () => relayed.events(id).find((one) => one.type === 'Delivery'));
    assert.equal(detail.delivery!.attempts, 1);
    assert.deepEqual([bad.messages.length, good.messages.length], [0, 1]);
  } finally {
    await relayed.close();
  }
});
