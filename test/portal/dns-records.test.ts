/** The records of a domain as files and as entries of providers' forms. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { entryOf } from '../../portal/src/pages/domains/providers.ts';
import {
  type DnsRecord,
  nameWithin,
  quotedStrings,
  stringsOf,
  terraformOf,
  zoneFileOf,
  zonesOf,
} from '../../portal/src/pages/domains/zone.ts';

const KEY = `v=DKIM1; k=rsa; p=${'A'.repeat(392)}`;
const record = (change: Partial<DnsRecord> = {}): DnsRecord => ({
  purpose: 'dkim',
  type: 'TXT',
  name: 's1._domainkey.mail.shop.example',
  value: KEY,
  status: 'missing',
  found: [],
  required: true,
  note: null,
  ...change,
});
const SPF = record({ purpose: 'spf', name: 'mail.shop.example', value: 'v=spf1 a:out.example ~all', required: false });

test('guesses the zone of a domain, which can be any part of it', () => {
  assert.deepEqual(zonesOf('shop.example'), ['shop.example']);
  assert.deepEqual(zonesOf('mail.shop.example'), ['shop.example', 'mail.shop.example']);
  assert.deepEqual(zonesOf('mail.shop.co.uk'), ['shop.co.uk', 'mail.shop.co.uk']);
  assert.equal(nameWithin('s1._domainkey.mail.shop.example', 'shop.example'), 's1._domainkey.mail');
  assert.equal(nameWithin('shop.example', 'shop.example'), '');
  assert.equal(nameWithin('bigshop.example', 'shop.example'), 'bigshop.example');
});

test('splits long texts into strings of at most 255 bytes, between characters', () => {
  const strings = stringsOf(KEY);
  assert.deepEqual(
    strings.map((one) => one.length),
    [255, KEY.length - 255],
  );
  assert.equal(strings.join(''), KEY);
  assert.deepEqual(stringsOf(''), ['']);
  for (const piece of stringsOf('ü'.repeat(200))) assert.ok(Buffer.byteLength(piece) <= 255);
  assert.equal(quotedStrings('a "b" \\ ü'), '"a \\"b\\" \\\\ \\195\\188"');
});

test('a zone file has full names and lists manual steps', () => {
  const toFillIn = record({ purpose: 'spf', name: 'shop.example', value: 'v=spf1 ip4:<address> ~all' });
  const file = zoneFileOf('mail.shop.example', [record(), { ...SPF, status: 'different' }, toFillIn]);
  const lines = file.trimEnd().split('\n');
  assert.equal(lines[1], `s1._domainkey.mail.shop.example. 3600 IN TXT "${KEY.slice(0, 255)}" "${KEY.slice(255)}"`);
  assert.match(lines[2]!, /^; Takes the place/);
  assert.equal(lines[3], 'mail.shop.example. 3600 IN TXT "v=spf1 a:out.example ~all"');
  assert.match(lines[4]!, /^; Fill in, then add: shop\.example TXT v=spf1 ip4:<address> ~all$/);
  assert.equal(lines.length, 5);
});

test('names are escaped in files', () => {
  const change = { purpose: 'return-path', type: 'CNAME', name: 'bounces.shop.example', value: 'in.postrider.example' };
  const alias = record({ ...(change as Partial<DnsRecord>), required: false });
  assert.match(
    zoneFileOf('shop.example', [alias]),
    /^bounces\.shop\.example\. 3600 IN CNAME in\.postrider\.example\.$/m,
  );
  assert.ok(terraformOf('cloudflare', 'shop.example', [alias]).includes('content = "in.postrider.example"'));
  assert.ok(terraformOf('route53', 'shop.example', [alias]).includes('records = ["in.postrider.example"]'));
  assert.equal(entryOf('route53', alias, 'shop.example').value, 'in.postrider.example');
});

test('Terraform for Cloudflare and Route 53', () => {
  const cloudflare = terraformOf('cloudflare', 'mail.shop.example', [record(), SPF]);
  assert.match(cloudflare, /resource "cloudflare_dns_record" "postrider_mail_shop_example_dkim_1"/);
  assert.ok(cloudflare.includes(`content = "\\"${KEY.slice(0, 255)}\\" \\"${KEY.slice(255)}\\""`));
  assert.match(cloudflare, /variable "cloudflare_zone_id"/);
  const route53 = terraformOf('route53', 'mail.shop.example', [record(), SPF]);
  assert.ok(route53.includes(`records = ["${KEY.slice(0, 255)}\\"\\"${KEY.slice(255)}"]`));
  assert.ok(route53.includes('records = ["v=spf1 a:out.example ~all"]'));
  assert.match(route53, /# One resource holds all TXT values of a name/);
});

test('SPF macros are not Terraform templates', () => {
  const macro = terraformOf('cloudflare', 'shop.example', [{ ...SPF, value: 'v=spf1 exists:%{i}.x $\u007ba} -all' }]);
  assert.ok(macro.includes('%%{i}'));
  assert.ok(macro.includes('$$\u007ba}'));
});

test('names and values match the forms of each provider', () => {
  assert.deepEqual(entryOf('other', SPF, 'shop.example'), { name: 'mail.shop.example', value: SPF.value });
  assert.equal(entryOf('cloudflare', SPF, 'mail.shop.example').name, '@');
  assert.equal(entryOf('route53', SPF, 'mail.shop.example').name, '');
  assert.equal(entryOf('godaddy', record(), 'shop.example').name, 's1._domainkey.mail');
  assert.equal(entryOf('route53', record(), 'shop.example').value, `"${KEY.slice(0, 255)}" "${KEY.slice(255)}"`);
});
