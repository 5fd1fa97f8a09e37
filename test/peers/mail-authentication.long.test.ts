/**
 * Authentication results of inbound mail, over the real inbound port and a real DNS server (Knot behind Unbound): messages signed by
 * OpenDKIM, dkimpy, and Postrider, and ARC chains. For each signature and chain, the event must agree with dkimpy for the same bytes and
 * keys.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { sealMessage } from 'mailauth/lib/arc/index.js';
import { dkimSign } from 'mailauth/lib/dkim/sign.js';
import { signDkim } from '../../src/mail/compose/dkim-sign.ts';
import type { JsonObject } from '../kit/api.ts';
import { missing } from '../kit/requirements.ts';
import { connectTalker } from '../kit/smtp-talker.ts';
import { type Service, startService } from '../kit/start-service.ts';
import { waitUntil } from '../kit/wait-until.ts';
import { noPrivateDns, type PrivateDns, startPrivateDns } from './private-dns.ts';

const PYTHON = '/usr/bin/python3';
const hasDkimpy = spawnSync(PYTHON, ['-c', 'import dkim, nacl']).status === 0;
const skip =
  noPrivateDns() ||
  missing('opendkim', 'opendkim-testmsg') ||
  (hasDkimpy ? false : 'dkimpy (python3-dkim, python3-nacl) is not installed');
if (skip && process.env.CI) throw new Error(skip);

const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 });
const other = generateKeyPairSync('rsa', { modulusLength: 2048 });
const short = generateKeyPairSync('rsa', { modulusLength: 512 });
const ed25519 = generateKeyPairSync('ed25519');
const largest = generateKeyPairSync('rsa', { modulusLength: 4096 });
const der = ({ publicKey }: typeof rsa): string => publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const pem = ({ privateKey }: typeof rsa): string =>
  privateKey.export({ type: 'pkcs1', format: 'pem' }).toString().replaceAll('\r', '');
const raw25519 = ed25519.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64');

/** Key records by name. */
const KEYS: Record<string, string> = {
  's._domainkey.shop.example': `v=DKIM1; k=rsa; p=${der(rsa)}`,
  'e._domainkey.shop.example': `v=DKIM1; k=ed25519; p=${raw25519}`,
  'wrong._domainkey.shop.example': `v=DKIM1; k=rsa; p=${der(other)}`,
  'gone._domainkey.shop.example': 'v=DKIM1; k=rsa; p=',
  'short._domainkey.shop.example': `v=DKIM1; k=rsa; p=${der(short)}`,
  'large._domainkey.shop.example': `v=DKIM1; k=rsa; p=${der(largest)}`,
  's._domainkey.mail.shop.example': `v=DKIM1; k=rsa; p=${der(rsa)}`,
  's._domainkey.list.example': `v=DKIM1; k=rsa; p=${der(rsa)}`,
  's._domainkey.strict.example': `v=DKIM1; k=rsa; p=${der(rsa)}`,
  's._domainkey.mail.strict.example': `v=DKIM1; k=rsa; p=${der(rsa)}`,
};
const text = (value: string): string => `TXT ${(value.match(/.{1,200}/g) ?? []).map((part) => `"${part}"`).join(' ')}`;
const keysOf = (zone: string): string[] =>
  Object.entries(KEYS).flatMap(([name, value]) =>
    name.endsWith(`.${zone}`) ? [`${name.slice(0, -zone.length - 1)} ${text(value)}`] : [],
  );
const includes = Array.from(
  { length: 11 },
  (_, index) => `n${index} ${text(`v=spf1 include:n${index + 1}.many.example -all`)}`,
);
const ZONES: Record<string, string[]> = {
  // In the parent zone, as at a registry: DMARC also looks there (RFC 9989 §4.10).
  example: [],
  'shop.example': [
    text('v=spf1 ip4:127.0.0.1 -all'),
    `_dmarc ${text('v=DMARC1; p=reject')}`,
    ...keysOf('shop.example'),
  ],
  'list.example': [text('v=spf1 a:mx.list.example ~all'), 'mx A 127.0.0.9', ...keysOf('list.example')],
  'soft.example': [text('v=spf1 include:list.example ~all'), `_dmarc ${text('v=DMARC1; p=none')}`],
  'fail.example': [text('v=spf1 mx -all'), 'MX 10 mx', 'mx A 127.0.0.9', `_dmarc ${text('v=DMARC1; p=quarantine')}`],
  'many.example': [text('v=spf1 include:n0.many.example -all'), ...includes],
  'two.example': [text('v=spf1 +all'), text('v=spf1 -all')],
  'strict.example': [
    text('v=spf1 -all'),
    `_dmarc ${text('v=DMARC1; p=reject; sp=none; adkim=s; aspf=s')}`,
    `mail ${text('v=spf1 ip4:127.0.0.1 -all')}`,
    ...keysOf('strict.example'),
  ],
  'plain.example': ['A 127.0.0.9'],
};

/** Lines without a name belong to the zone itself. */
const atZone = (record: string): string => (/^(TXT|MX|A) /.test(record) ? `@ ${record}` : record);

let dns: PrivateDns;
let service: Service;
const folder = mkdtempSync(path.join(os.tmpdir(), 'authentication-'));
before(async () => {
  if (skip) return;
  const zones = Object.entries(ZONES).map(([zone, records]) => [zone, { records: records.map(atZone) }] as const);
  const forged = { records: [text('v=spf1 +all')].map(atZone), signed: 'nsec', bogus: true } as const;
  dns = await startPrivateDns({ ...Object.fromEntries(zones), 'forged.test': forged });
  service = await startService({
    env: { POSTRIDER_INBOUND_PORT: '0', POSTRIDER_DNS_SERVERS: dns.resolver },
  });
  await service.cli('domain', 'add', service.live.accountId, 'in.example', '--verified');
  const made = await service.api.post('/inbound-routes', { match: '*@in.example' });
  assert.equal(made.status, 201, made.text);
});
after(async () => {
  await service?.close();
  await dns?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Brought {
  content: string;
  from?: string;
  helo?: string;
}

/** Sends the message as the sender's server does; returns the results in its event. */
async function bring({ content, from = 'ann@shop.example', helo = 'mx.shop.example' }: Brought): Promise<JsonObject> {
  const talker = await connectTalker(service.inboundPort);
  try {
    await talker.reply();
    for (const line of [`EHLO ${helo}`, `MAIL FROM:<${from}>`, 'RCPT TO:<support@in.example>', 'DATA']) {
      const reply = await talker.say(line);
      assert.match(reply, /^[23]/, `${line}: ${reply}`);
    }
    talker.send(Buffer.from(content.replace(/^\./gm, '..'), 'latin1'));
    const reply = await talker.say('.');
    const id = /inb_\w+/.exec(reply)?.[0];
    assert.ok(id, reply);
    const isOf = ({ inbound }: JsonObject): boolean => inbound.inboundId === id;
    const event = await waitUntil(
      'the event',
      async () => ((await service.api.get('/events?eventType=Inbound')).body as unknown as JsonObject[]).find(isOf),
      45_000,
    );
    return event.inbound.authentication;
  } finally {
    talker.destroy();
  }
}

const mailFrom = (from: string, body = 'Hello  Bob,\r\n\r\nit came. \r\n\r\n'): string =>
  `From: Ann <${from}>\r\nTo: support@in.example\r\nSubject: Order 17\r\nDate: Mon, 23 Nov 2026 09:00:00 +0000\r\n` +
  `Message-ID: <1@shop.example>\r\n\r\n${body}`;
const PLAIN = mailFrom('ann@shop.example');

function python(program: string, input: unknown): unknown {
  const { stdout, stderr, status } = spawnSync(PYTHON, ['-c', program], {
    input: JSON.stringify(input),
    encoding: 'utf8',
    timeout: 60_000,
    maxBuffer: 100_000_000,
  });
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

const SIGN = `
import sys, json, dkim
w = json.load(sys.stdin)
field = dkim.sign(w['content'].encode('latin1'), w['selector'].encode(), w['domain'].encode(), w['key'].encode(),
    canonicalize=(b'relaxed', w['body'].encode()), length=w['length'], signature_algorithm=w['algorithm'].encode())
print(json.dumps(field.decode()))
`;
interface Signing {
  content?: string;
  selector?: string;
  domain?: string;
  key?: string;
  body?: 'relaxed' | 'simple';
  length?: boolean;
  algorithm?: string;
}
function byDkimpy({ content = PLAIN, ...change }: Signing): string {
  const wanted = { content, selector: 's', domain: 'shop.example', key: pem(rsa), body: 'relaxed', length: false };
  return (python(SIGN, { ...wanted, algorithm: 'rsa-sha256', ...change }) as string) + content;
}

const SBIN = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` };

/** Its test mode prints the header field that it would add. */
function byOpenDkim(): string {
  const [key, config, mail] = ['key.pem', 'opendkim.conf', 'mail.eml'].map((name) => path.join(folder, name)) as [
    ...[string, string, string],
  ];
  writeFileSync(key, pem(rsa), { mode: 0o600 });
  writeFileSync(mail, PLAIN);
  const lines = ['Mode s', 'Domain shop.example', 'Selector s', `KeyFile ${key}`, 'InternalHosts 0.0.0.0/0'];
  writeFileSync(config, [...lines, 'Canonicalization relaxed/simple', 'RequireSafeKeys no', ''].join('\n'));
  const options = { encoding: 'latin1', env: SBIN } as const;
  const { stdout, stderr } = spawnSync('opendkim', ['-x', config, '-vv', '-t', mail], options);
  const value = /hname='DKIM-Signature' hvalue='([^']*)'/.exec(stdout + stderr)?.[1];
  assert.ok(value, stdout + stderr);
  return `DKIM-Signature: ${value.replaceAll('\n', '\r\n')}\r\n${PLAIN}`;
}

/** Its command line tool still signs with rsa-sha1, which RFC 8301 forbids. */
function bySha1(): string {
  const file = path.join(folder, 'key.pem');
  const options = { input: PLAIN, encoding: 'latin1', env: SBIN } as const;
  const { stdout } = spawnSync('opendkim-testmsg', ['-C', '-d', 'shop.example', '-s', 's', '-k', file], options);
  assert.match(stdout, /a=rsa-sha1/);
  return stdout;
}

async function byUs(keys: Parameters<typeof signDkim>[0]['keys'], content = PLAIN): Promise<string> {
  return (await signDkim({ content: Buffer.from(content), domain: 'shop.example', keys, nowMs: Date.now() })) + content;
}

async function sealed(
  content: string,
  authResults = 'mx.list.example; dkim=pass header.d=shop.example',
): Promise<string> {
  const i = (content.match(/^ARC-Seal:/gm)?.length ?? 0) + 1;
  const seal = { signingDomain: 'list.example', selector: 's', privateKey: pem(rsa), authResults, i };
  const fields = await sealMessage(Buffer.from(content), { ...seal, cv: i === 1 ? 'none' : 'pass' } as never);
  return fields.toString() + content;
}

const VERIFY = `
import sys, json, dkim
w = json.load(sys.stdin)
def lookup(name, timeout=5):
    found = w['keys'].get(name.decode().rstrip('.'))
    return found.encode() if found is not None else None
def signature(mail, index):
    try:
        return dkim.DKIM(mail).verify(idx=index, dnsfunc=lookup)
    except Exception:
        return False
def one(text):
    mail = text.encode('latin1')
    count = sum(1 for name, value in dkim.DKIM(mail).headers if name.lower() == b'dkim-signature')
    cv = dkim.arc_verify(mail, dnsfunc=lookup)[0]
    return [[signature(mail, index) for index in range(count)], cv.decode() if cv else 'none']
print(json.dumps([one(text) for text in w['mails']]))
`;

/** Every message of these tests with its event's results, to compare with dkimpy. */
const seen: { name: string; content: string; results: JsonObject }[] = [];

/** `dkim` of each, DMARC with its policy, ARC. */
async function expectResults(name: string, brought: Brought, expected: string): Promise<JsonObject> {
  const results = await bring(brought);
  seen.push({ name, content: brought.content, results });
  const { dkim, dmarc, arc } = results;
  const signatures = dkim.map(({ result }: JsonObject) => result).join(' ');
  assert.equal(`${signatures || 'unsigned'}; ${dmarc.result} ${dmarc.policy}; ${arc.result}`, expected, name);
  return results;
}

/** A server that no SPF record names, so that signatures decide. */
const FROM_ELSEWHERE = { from: 'bounce@fail.example' };

test('signatures of OpenDKIM, dkimpy, and Postrider', { skip, timeout: 240_000 }, async () => {
  const one = (name: string, content: string, expected: string, brought: Partial<Brought> = FROM_ELSEWHERE) =>
    expectResults(name, { content, ...brought }, expected);
  const pass = 'pass; pass reject; none';
  const fail = 'fail; fail reject; none';
  await one('by OpenDKIM', byOpenDkim(), pass);
  await one('rsa-sha1', bySha1(), 'policy; fail reject; none');
  await one('by dkimpy', byDkimpy({}), pass);
  await one('by dkimpy, simple', byDkimpy({ body: 'simple' }), pass);
  const rsaKey = { algorithm: 'rsa', selector: 's', privateKey: createPrivateKey(pem(rsa)) } as const;
  const edKey = { algorithm: 'ed25519', selector: 'e', privateKey: ed25519.privateKey } as const;
  await one('by us, twice', await byUs([rsaKey, edKey]), 'pass pass; pass reject; none');
  await one('the body was changed', byDkimpy({}).replace('it came', 'it left'), fail);
  await one('the subject was changed', byDkimpy({}).replace('Order 17', 'Order 18'), fail);
  await one('another From on top', `From: eve@list.example\r\n${byDkimpy({})}`, 'fail; permerror null; none');
  await one('blanks at line ends were taken away', byDkimpy({}).replace('came. ', 'came.'), pass);
  await one('the same, simple', byDkimpy({ body: 'simple' }).replace('came. ', 'came.'), fail);
  await one('another key', byDkimpy({ selector: 'wrong' }), fail);
  await one('a key that is gone', byDkimpy({ selector: 'gone' }), 'neutral; fail reject; none');
  await one('no key', byDkimpy({ selector: 'none' }), 'neutral; fail reject; none');
  await one('a key that is too short', byDkimpy({ selector: 'short', key: pem(short) }), 'policy; fail reject; none');
  await one('a key of 4,096 bits', byDkimpy({ selector: 'large', key: pem(largest) }), pass);
  const longer = `${byDkimpy({ length: true })}And send money to Eve.\r\n`;
  const added = await one('more behind l=', longer, 'policy; fail reject; none');
  assert.match(added.dkim[0].reason, /last \d+ bytes of the body are not signed/);
  await one('of a subdomain', byDkimpy({ domain: 'mail.shop.example' }), pass);
  await one('of a stranger', byDkimpy({ domain: 'list.example' }), 'pass; fail reject; none');
  await one(
    'of a list and the author',
    byDkimpy({ domain: 'list.example', content: byDkimpy({}) }),
    'pass pass; pass reject; none',
  );
  const strict = mailFrom('ann@strict.example');
  await one(
    'strict, of a subdomain',
    byDkimpy({ domain: 'mail.strict.example', content: strict }),
    'pass; fail reject; none',
  );
  await one('strict, of itself', byDkimpy({ domain: 'strict.example', content: strict }), pass);
  const below = mailFrom('ann@mail.strict.example');
  await one('the policy of subdomains', below, 'unsigned; fail none; none');
  const { signatures: expired } = await dkimSign(PLAIN, {
    canonicalization: 'relaxed/relaxed',
    signTime: new Date(Date.now() - 7_200_000),
    expires: new Date(Date.now() - 3_600_000),
    signatureData: [{ signingDomain: 'shop.example', selector: 's', privateKey: pem(rsa) }],
  } as never);
  await one('expired', expired + PLAIN, 'neutral; fail reject; none');
});

test('SPF and DMARC with a real DNS server', { skip, timeout: 120_000 }, async () => {
  const cases: [from: string, header: string, spf: string, dmarc: string][] = [
    ['ann@shop.example', 'ann@shop.example', 'pass', 'pass reject'],
    ['ann@shop.example', 'ann@strict.example', 'pass', 'fail reject'],
    ['ann@mail.strict.example', 'ann@strict.example', 'pass', 'fail reject'],
    ['ann@mail.strict.example', 'ann@mail.strict.example', 'pass', 'pass none'],
    ['ann@fail.example', 'ann@fail.example', 'fail', 'fail quarantine'],
    ['ann@soft.example', 'ann@soft.example', 'softfail', 'fail none'],
    ['ann@many.example', 'ann@shop.example', 'permerror', 'fail reject'],
    ['ann@two.example', 'ann@shop.example', 'permerror', 'fail reject'],
    ['ann@plain.example', 'ann@plain.example', 'none', 'none null'],
    ['ann@nowhere.shop.example', 'ann@shop.example', 'none', 'fail reject'],
    ['ann@nowhere.invalid', 'ann@shop.example', 'none', 'fail reject'],
    ['ann@forged.test', 'ann@shop.example', 'temperror', 'fail reject'],
  ];
  for (const [from, header, spf, dmarc] of cases) {
    const found = await bring({ from, content: mailFrom(header) });
    const { result, policy } = found.dmarc;
    assert.deepEqual(
      [found.spf.result, `${result} ${policy}`, found.dkim],
      [spf, dmarc, []],
      `${from}, From ${header}`,
    );
    assert.equal(found.spf.domain, from.split('@')[1]);
  }
  const { spf } = await bring({ from: '', helo: 'shop.example', content: PLAIN });
  assert.deepEqual([spf.result, spf.domain], ['pass', 'shop.example'], 'of the HELO name');
});

const changedLetter = (_: string, before: string, letter: string): string => before + (letter === 'A' ? 'B' : 'A');

test('ARC chains', { skip, timeout: 120_000 }, async () => {
  const signed = byDkimpy({});
  const sealedOnce = await sealed(signed.replace('Order 17', '[list] Order 17'));
  const twice = await sealed(sealedOnce);
  const one = (name: string, content: string, expected: string) =>
    expectResults(name, { content, ...FROM_ELSEWHERE }, expected);
  await one('a list changed the subject, and sealed it', sealedOnce, 'fail; fail reject; pass');
  await one('sealed by two', twice, 'fail; fail reject; pass');
  await one('changed behind the seal', twice.replace('it came', 'it left'), 'fail; fail reject; fail');
  await one(
    'a seal of the first was changed',
    twice.replace(/(ARC-Seal: i=1;[\s\S]*?b=)(.)/, changedLetter),
    'fail; fail reject; fail',
  );
  await one('a set is missing', twice.replace(/ARC-Seal: i=1;[\s\S]*?(?=\r\n\S)\r\n/, ''), 'fail; fail reject; fail');
});

test('dkimpy agrees on every signature and chain', { skip, timeout: 120_000 }, () => {
  // dkimpy does not check expired signatures or forbidden algorithms, and accepts unsigned bytes behind l=.
  const same = seen.filter(({ name }) => !['expired', 'rsa-sha1', 'more behind l='].includes(name));
  const found = python(VERIFY, { keys: KEYS, mails: same.map(({ content }) => content) }) as [boolean[], string][];
  assert.ok(same.length >= 25);
  const ours = same.map(({ name, results: { dkim, arc } }) => [
    name,
    dkim.map(({ result }: JsonObject) => result === 'pass'),
    arc.result,
  ]);
  assert.deepEqual(
    ours,
    same.map(({ name }, index) => [name, ...found[index]!]),
  );
  assert.ok(found.flatMap(([signatures]) => signatures).includes(false), 'control: it does not accept everything');
});
