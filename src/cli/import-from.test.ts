/** Imports from other services into a running service: real export formats, repetition, invalid files, and long files. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { runInProcess } from '../../test/kit/in-process-command.ts';
import { type Service, startService } from '../../test/kit/start-service.ts';
import { fileRows } from './import-files.ts';

let service: Service;
const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-import-'));

before(async () => {
  service = await startService();
});
after(async () => {
  await service.close();
  rmSync(folder, { recursive: true, force: true });
});

function file(name: string, content: unknown): string {
  const target = path.join(folder, name);
  writeFileSync(target, typeof content === 'string' ? content : JSON.stringify(content, null, 2));
  return target;
}

const run = (...args: string[]) =>
  runInProcess(['import-from', ...args], { ...process.env, POSTRIDER_DATA_DIR: service.dataDir });

async function json(...args: string[]) {
  const ran = await run(...args, '--json');
  assert.equal(ran.code, 0, ran.stdout + ran.stderr);
  return JSON.parse(ran.stdout);
}

interface Case {
  service: string;
  content: unknown;
  options?: string[];
  kind: string;
  /** Addresses and reasons. */
  suppressed?: Record<string, string>;
  skipped?: number;
}

const CASES: Case[] = [
  {
    service: 'resend',
    kind: 'suppressions',
    content: {
      object: 'list',
      has_more: false,
      data: [
        {
          id: 'e169aa45',
          email: 'r1@x.test',
          origin: 'bounce',
          source_id: '4ef9',
          created_at: '2026-10-06 23:47:56+00',
        },
        { id: 'e169aa46', email: 'r2@x.test', origin: 'complaint', source_id: null, created_at: '2026-10-06' },
      ],
    },
    suppressed: { 'r1@x.test': 'bounce', 'r2@x.test': 'complaint' },
  },
  {
    service: 'resend',
    kind: 'contacts',
    content: 'id,email,first_name,last_name,unsubscribed\n1,r3@x.test,Ann,"Lee, PhD",true\n2,r4@x.test,Bo,,false\n',
    suppressed: { 'r3@x.test': 'unsubscribe' },
    skipped: 1,
  },
  {
    service: 'postmark',
    kind: 'suppressions',
    content: {
      Suppressions: [
        {
          EmailAddress: 'p1@x.test',
          SuppressionReason: 'HardBounce',
          Origin: 'Recipient',
          CreatedAt: '2019-12-10T08:58:33-05:00',
        },
        { EmailAddress: 'p2@x.test', SuppressionReason: 'SpamComplaint', Origin: 'Recipient', CreatedAt: '2019-12-10' },
        { EmailAddress: 'p3@x.test', SuppressionReason: 'ManualSuppression', Origin: 'Customer', CreatedAt: '' },
        { EmailAddress: 'p4@x.test', SuppressionReason: 'ManualSuppression', Origin: 'Recipient', CreatedAt: '' },
      ],
    },
    suppressed: {
      'p1@x.test': 'bounce',
      'p2@x.test': 'complaint',
      'p3@x.test': 'manual',
      'p4@x.test': 'unsubscribe',
    },
  },
  {
    service: 'postmark',
    kind: 'suppressions',
    content:
      '\uFEFF"Email Address","Suppression Reason","Origin","Created At"\r\n"P5@X.test","HardBounce","Recipient","x"\r\n',
    suppressed: { 'p5@x.test': 'bounce' },
  },
  {
    service: 'postmark',
    kind: 'bounces',
    content: {
      TotalCount: 6,
      Bounces: [
        { ID: 1, Type: 'HardBounce', TypeCode: 1, Email: 'p6@x.test', Inactive: true, CanActivate: true },
        { ID: 2, Type: 'Transient', TypeCode: 2, Email: 'p7@x.test', Inactive: false, CanActivate: false },
        { ID: 3, Type: 'ManuallyDeactivated', TypeCode: 100007, Email: 'p8@x.test', Inactive: true },
        { ID: 4, Type: 'Unsubscribe', TypeCode: 16, Email: 'p9@x.test', Inactive: true },
        { ID: 5, Type: 'SpamComplaint', TypeCode: 100001, Email: 'p10@x.test', Inactive: true },
        { ID: 6, Type: 'BadEmailAddress', TypeCode: 100000, Email: 'p11@x.test', Inactive: true },
      ],
    },
    suppressed: {
      'p6@x.test': 'bounce',
      'p8@x.test': 'manual',
      'p9@x.test': 'unsubscribe',
      'p10@x.test': 'complaint',
      'p11@x.test': 'bounce',
    },
    skipped: 1,
  },
  {
    service: 'sendgrid',
    kind: 'bounces or blocks',
    options: ['--list', 'bounces'],
    content: [{ created: 1443651125, email: 's1@x.test', reason: '550 5.1.1 no such user', status: '5.1.1' }],
    suppressed: { 's1@x.test': 'bounce' },
  },
  {
    service: 'sendgrid',
    kind: 'bounces or blocks',
    options: ['--list', 'blocks'],
    content: 'status,reason,email,created\n5.7.1,"550 5.7.1 blocked, sorry",s2@x.test,1443651125\n',
    suppressed: {},
    skipped: 1,
  },
  {
    service: 'sendgrid',
    kind: 'spam reports',
    content: [{ created: 1443651141, email: 's3@x.test', ip: '10.63.202.100' }],
    suppressed: { 's3@x.test': 'complaint' },
  },
  {
    service: 'sendgrid',
    kind: 'invalid emails',
    content: 'reason,email,created\nMail domain mentioned in email address is unknown,s4@x.test,1433800303\n',
    suppressed: { 's4@x.test': 'bounce' },
  },
  {
    service: 'sendgrid',
    kind: 'global unsubscribes',
    content: 'email,created\ns5@x.test,1443651141\n',
    suppressed: { 's5@x.test': 'unsubscribe' },
  },
  {
    service: 'sendgrid',
    kind: 'group unsubscribes',
    content: ['s6@x.test', 's7@x.test'],
    suppressed: {},
    skipped: 2,
  },
  {
    service: 'sendgrid',
    kind: 'group unsubscribes',
    options: ['--groups'],
    content: [{ email: 's8@x.test', group_id: 1, group_name: 'Weekly News', created_at: 1410986704 }],
    suppressed: { 's8@x.test': 'unsubscribe' },
  },
  {
    service: 'mailgun',
    kind: 'bounces',
    // Two pages, one after the other.
    content: `${JSON.stringify(
      {
        items: [
          { address: 'm1@x.test', code: '550', error: 'No such mailbox', created_at: 'Fri, 21 Oct 2011 11:02:55 GMT' },
        ],
        paging: { first: 'u', next: 'u', previous: 'u', last: 'u' },
      },
      null,
      2,
    )}\n${JSON.stringify({ items: [{ address: 'm2@x.test', code: '550', error: 'x', created_at: 'x' }], paging: {} })}\n`,
    suppressed: { 'm1@x.test': 'bounce', 'm2@x.test': 'bounce' },
  },
  {
    service: 'mailgun',
    kind: 'complaints',
    content: { items: [{ address: 'm3@x.test', created_at: 'Fri, 21 Oct 2011 11:02:55 GMT' }], paging: {} },
    suppressed: { 'm3@x.test': 'complaint' },
  },
  {
    service: 'mailgun',
    kind: 'unsubscribes',
    content: {
      items: [
        { address: 'm4@x.test', tags: ['*'], created_at: 'Fri, 21 Oct 2011 11:02:55 GMT' },
        { address: 'm5@x.test', tags: ['newsletter'], created_at: 'Fri, 21 Oct 2011 11:02:55 GMT' },
      ],
      paging: {},
    },
    suppressed: { 'm4@x.test': 'unsubscribe' },
    skipped: 1,
  },
  {
    service: 'mailgun',
    kind: 'unsubscribes',
    content: 'address,tags,created_at\nm6@x.test,*,"Fri, 21 Oct 2011 11:02:55 GMT"\n',
    suppressed: { 'm6@x.test': 'unsubscribe' },
  },
  {
    service: 'ses',
    kind: 'suppressions',
    content: {
      SuppressedDestinationSummaries: [
        { EmailAddress: 'a1@x.test', Reason: 'COMPLAINT', LastUpdateTime: '2026-04-10T21:03:05+00:00' },
        { EmailAddress: 'a2@x.test', Reason: 'BOUNCE', LastUpdateTime: 1586552585.077 },
      ],
      NextToken: 'x',
    },
    suppressed: { 'a1@x.test': 'complaint', 'a2@x.test': 'bounce' },
  },
  { service: 'ses', kind: 'suppressions', content: 'a3@x.test,BOUNCE\n', suppressed: { 'a3@x.test': 'bounce' } },
  {
    service: 'ses',
    kind: 'suppressions',
    content: '{"emailAddress":"a4@x.test","reason":"BOUNCE"}\n{"emailAddress":"a5@x.test","reason":"COMPLAINT"}\n',
    suppressed: { 'a4@x.test': 'bounce', 'a5@x.test': 'complaint' },
  },
  {
    service: 'postal',
    kind: 'suppressions',
    content:
      'id\ttype\taddress\treason\ttimestamp\tkeep_until\n' +
      '1\trecipient\to1@x.test\ttoo many hard fails\t1764200000.5\t4102444800.25\n' +
      '2\trecipient\to2@x.test\ttoo many soft fails\t1600000000.5\t1600100000.25\n',
    suppressed: { 'o1@x.test': 'bounce' },
    skipped: 1,
  },
];

for (const [index, one] of CASES.entries()) {
  test(`${one.service}: ${one.kind} (${index + 1}) is recognized by content and imported once`, async () => {
    // The file name does not identify the service.
    const name = file(`export-${index}`, one.content);
    const args = [one.service, name, ...(one.options ?? [])];
    const wanted = Object.keys(one.suppressed ?? {});
    const planned = await json(...args);
    assert.equal(planned.dryRun, true);
    assert.equal(planned.files[0].kind, one.kind);
    for (const email of wanted) assert.equal((await service.sandboxApi.get(`/suppressions/${email}`)).status, 404);
    const done = await json(...args, '--yes');
    assert.equal(done.suppressions.added, wanted.length);
    assert.equal(
      done.skipped.reduce((sum: number, { rows }: { rows: number }) => sum + rows, 0),
      one.skipped ?? 0,
    );
    for (const [email, reason] of Object.entries(one.suppressed ?? {})) {
      const found = await service.sandboxApi.get(`/suppressions/${email}`);
      assert.equal(found.body.reason, reason);
    }
    const again = await json(...args, '--yes');
    assert.deepEqual([again.suppressions.added, again.suppressions.strengthened], [0, 0]);
    assert.equal(again.suppressions.present, wanted.length);
  });
}

test('pages are separated by their brackets, with or without a line end between them', async () => {
  const pages = [
    { object: 'list', data: [{ email: '"}]{["@x.test', origin: 'bounce' }] },
    { object: 'list', data: [{ email: 'g2@x.test', origin: 'bounce', note: 'C:\\' }] },
    [{ email: 'g3@x.test', origin: 'bounce' }],
    [],
    [{ email: 'g4@x.test', origin: 'bounce' }],
  ];
  const wanted = ['"}]{["@x.test', 'g2@x.test', 'g3@x.test', 'g4@x.test'];
  const compact = pages.map((page) => JSON.stringify(page));
  const spaced = pages.map((page) => JSON.stringify(page, null, 2));
  const texts = [compact.join(''), compact.join('\n'), spaced.join(''), `${spaced.join(' \r\n')}\n`];
  for (const [index, text] of texts.entries()) {
    const rows = await Array.fromAsync(fileRows(file(`pages-${index}`, text)));
    assert.deepEqual(
      rows.map(({ row }) => row.email),
      wanted,
    );
  }
  for (const text of ['{"data":[]}{"data":[', '[]\n[]]', '[{"email":"}', '{"data":[]}x']) {
    await assert.rejects(Array.fromAsync(fileRows(file('pages', text))), /is not valid JSON/, text);
  }
});

test('the keep-until time of a Postal entry becomes its expiry', async () => {
  const found = await service.sandboxApi.get('/suppressions/o1@x.test');
  assert.equal(found.body.expiresAt, '2100-01-01T00:00:00.250Z');
});

test('the strongest reason of all files wins, even over an existing entry', async () => {
  await service.sandboxApi.post('/suppressions', { email: 'w1@x.test', reason: 'manual' });
  await service.sandboxApi.post('/suppressions', { email: 'w2@x.test', reason: 'complaint' });
  const bounces = file('w-bounces', 'address,code,error\nw1@x.test,550,x\nw2@x.test,550,x\nw3@x.test,550,x\n');
  const complaints = file('w-complaints', 'address,created_at\nw3@x.test,x\nW1@x.test,x\n');
  const done = await json('mailgun', bounces, complaints, '--yes');
  assert.deepEqual(done.suppressions, { added: 1, reasons: { complaint: 1 }, strengthened: 1, present: 1 });
  for (const email of ['w1@x.test', 'w2@x.test', 'w3@x.test']) {
    assert.equal((await service.sandboxApi.get(`/suppressions/${email}`)).body.reason, 'complaint');
  }
});

test('a complaint is stronger than a request to unsubscribe, in the files and on the list', async () => {
  await service.sandboxApi.post('/suppressions', { email: 'u1@x.test', reason: 'unsubscribe' });
  const unsubscribed = file('u-unsubscribes', 'address,tags,created_at\nu2@x.test,*,x\n');
  const complaints = file('u-complaints', 'address,created_at\nu1@x.test,x\nu2@x.test,x\n');
  for (const files of [
    [unsubscribed, complaints],
    [complaints, unsubscribed],
  ]) {
    const planned = await json('mailgun', ...files);
    assert.deepEqual(planned.suppressions, { added: 1, reasons: { complaint: 1 }, strengthened: 1, present: 0 });
  }
  await json('mailgun', unsubscribed, complaints, '--yes');
  for (const email of ['u1@x.test', 'u2@x.test']) {
    assert.equal((await service.sandboxApi.get(`/suppressions/${email}`)).body.reason, 'complaint');
  }
});

test('addresses that are not valid are listed, and do not stop the import', async () => {
  const created = 1433800303;
  const invalid = file('invalid-emails', [
    { created, email: 'john@gmail..com', reason: 'Mail domain mentioned in email address is unknown' },
    { created, email: 'test@@x.com', reason: 'Mail domain mentioned in email address is unknown' },
    { created, email: 'i1@x.test', reason: 'Known bad domain' },
  ]);
  const done = await json('sendgrid', invalid, '--yes');
  assert.equal(done.suppressions.added, 1);
  assert.deepEqual(done.skipped, [{ reason: 'addresses that are not valid', rows: 2 }]);
  assert.deepEqual(done.invalidAddresses, [
    { file: invalid, place: 'item 1', address: 'john@gmail..com' },
    { file: invalid, place: 'item 2', address: 'test@@x.com' },
  ]);
  assert.equal((await service.sandboxApi.get('/suppressions/i1@x.test')).body.reason, 'bounce');
  const { stdout } = await run('sendgrid', invalid);
  assert.match(stdout, /not imported\s+2 addresses that are not valid\n/);
  assert.ok(stdout.includes(`${invalid}: item 2: "test@@x.com"\n`), stdout);
});

test('only the first addresses that are not valid are listed', async () => {
  const lines = Array.from({ length: 25 }, (_, index) => `not-${index},x\n`);
  const many = file('invalid-many', `address,error\nmany@x.test,x\n${lines.join('')}`);
  const planned = await json('mailgun', many);
  assert.equal(planned.invalidAddresses.length, 20);
  assert.deepEqual(planned.invalidAddresses[0], { file: many, place: 'line 3', address: 'not-0' });
  assert.match((await run('mailgun', many)).stdout, /"not-19"\n\s+and 5 more/);
});

const DOMAINS: [service: string, content: unknown, domains: string[]][] = [
  ['resend', { data: [{ id: '1', name: 'resend.test', status: 'verified', region: 'eu-west-1' }] }, ['resend.test']],
  ['postmark', { TotalCount: 1, Domains: [{ ID: 1, Name: 'Postmark.test', DKIMVerified: true }] }, ['postmark.test']],
  [
    'postmark',
    {
      SenderSignatures: [
        { Domain: 'signature.test', EmailAddress: 'a@signature.test', Confirmed: true },
        { Domain: 'Gmail.com', EmailAddress: 'me@Gmail.com', Confirmed: true },
        { Domain: 'unconfirmed.test', EmailAddress: 'a@unconfirmed.test', Confirmed: false },
      ],
    },
    ['signature.test'],
  ],
  ['sendgrid', [{ id: 1, domain: 'sendgrid.test', subdomain: 'em1', valid: true, dns: {} }], ['sendgrid.test']],
  ['mailgun', { items: [{ name: 'mailgun.test', state: 'active' }], total_count: 1 }, ['mailgun.test']],
  [
    'ses',
    {
      EmailIdentities: [
        { IdentityType: 'DOMAIN', IdentityName: 'ses.test', SendingEnabled: true },
        { IdentityType: 'EMAIL_ADDRESS', IdentityName: 'a@b.test', SendingEnabled: true },
      ],
    },
    ['ses.test'],
  ],
  ['postal', 'id,name,verification_token\n1,postal.test,abc\n', ['postal.test']],
];

test('domains are added once, to live mode', async () => {
  for (const [name, content, domains] of DOMAINS) {
    const args = [name, file(`domains-${name}`, content), '--live'];
    assert.deepEqual((await json(...args)).domains.added, domains);
    await json(...args, '--yes');
    assert.deepEqual((await json(...args, '--yes')).domains, { added: [], present: domains.length });
  }
});

test('a sandbox key imports the suppressions and lists the domains that it cannot add', async () => {
  const more = file('more', { items: [{ name: 'more.test', state: 'active' }] });
  const bounces = file('more-bounces', 'address,code,error\nd1@x.test,550,x\n');
  const reason = 'domains, which a sandbox key cannot add (add --live, or use a live key): more.test';
  for (const options of [[], ['--yes']]) {
    const done = await json('mailgun', more, bounces, ...options);
    assert.deepEqual(done.domains, { added: [], present: 0 });
    assert.deepEqual(done.skipped, [{ reason, rows: 1 }]);
    assert.equal(done.suppressions.added, 1);
  }
  assert.equal((await service.sandboxApi.get('/suppressions/d1@x.test')).body.reason, 'bounce');
  assert.match((await run('mailgun', more)).stdout, /not imported\s+1 domains, which a sandbox key cannot add/);
});

const MALFORMED: [service: string, content: string, code: number, message: RegExp][] = [
  ['postmark', '', 1, /is empty/],
  ['postmark', '{"Suppressions": [', 1, /is not valid JSON/],
  ['ses', '{"emailAddress":"a@x.test","reason":"BOUNCE"}\n{"emailAddress":', 1, /is not valid JSON from line 2 on/],
  ['mailgun', 'address,error\n"a@x.test,x\n', 1, /has an unclosed quote in line 2/],
  ['mailgun', 'address,error\na@x.test,x\n,x\n', 1, /line 3: the address is empty/],
  [
    'ses',
    '{"SuppressedDestinationSummaries":[{"EmailAddress":"a@x.test","Reason":"MOOD"}]}',
    1,
    /item 1: reason is "MOOD"/,
  ],
  ['ses', 'BOUNCE,a@x.test\n', 1, /is "a@x\.test"/],
  [
    'mailgun',
    'address,error\nx,a@x.test\ny,b@x.test\n',
    1,
    /line 2: each of 2 addresses is not valid, for example "x"/,
  ],
  ['postal', 'type,address,keep_until\nrecipient,a@x.test,soon\n', 1, /line 2: keep_until is "soon"/],
  ['postmark', 'name,color\na,b\n', 1, /line 2 has the fields name, color, which match no Postmark export/],
  ['sendgrid', 'status,reason,email,created\n5.1.1,x,a@x.test,1\n', 2, /add --list bounces or --list blocks/],
  ['hotmail', 'address,error\na@x.test,x\n', 2, /unknown service hotmail; use one of: resend/],
];

test('an invalid file is reported with its line and field, and changes nothing', async () => {
  for (const [index, [name, content, code, message]] of MALFORMED.entries()) {
    const invalid = file(`invalid-${index}`, content);
    const valid = file('valid', 'address,error\nuntouched@x.test,x\n');
    const files = name === 'mailgun' ? [valid, invalid] : [invalid];
    const ran = await run(name, ...files, '--yes');
    assert.equal(ran.code, code, ran.stderr);
    assert.match(ran.stderr, message);
    if (code === 1) assert.ok(ran.stderr.includes(invalid));
  }
  assert.equal((await service.sandboxApi.get('/suppressions/untouched@x.test')).status, 404);
  assert.match((await run('ses', path.join(folder, 'missing'))).stderr, /missing does not exist/);
});

test('a file of 100,000 lines is streamed row by row', async () => {
  const long = path.join(folder, 'long');
  const lines = Array.from({ length: 100_000 }, (_, i) => `long-${i}@x.test,550,"No such, mailbox"`);
  writeFileSync(long, `address,code,error\n${lines.join('\n')}\n`);
  let rows = 0;
  for await (const { place, row } of fileRows(long)) {
    rows += 1;
    assert.equal(place, `line ${rows + 1}`);
    assert.equal(row.error, 'No such, mailbox');
  }
  assert.equal(rows, 100_000);
});
