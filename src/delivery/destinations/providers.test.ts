/** Provider limits: which provider an MX host belongs to, what the operator's file changes, and which files prevent the start. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import { mergeProviders, PROVIDERS, readProviders } from './providers.ts';

test('large providers are recognized by the names of their MX hosts', () => {
  const hosts: [host: string, name: string | undefined][] = [
    ['gmail-smtp-in.l.google.com', 'google'],
    ['alt4.aspmx.l.google.com', 'google'],
    ['smtp.google.com', 'google'],
    ['aspmx2.googlemail.com', 'google'],
    ['shop-example.mail.protection.outlook.com', 'microsoft'],
    ['hotmail-com.olc.protection.outlook.com', 'microsoft'],
    ['shop-example.a-v1.mx.microsoft', 'microsoft'],
    ['mta5.am0.yahoodns.net', 'yahoo'],
    ['mx01.mail.icloud.com', 'apple'],
    ['mx00.gmx.net', 'gmx'],
    ['google.com', undefined],
    ['mx.google.com.shop.example', undefined],
    ['notgoogle.com', undefined],
  ];
  for (const [host, name] of hosts) assert.equal(PROVIDERS.byHost(host)?.name, name, host);
});

test('Google and Microsoft get 10 connections of 50 messages, Yahoo 5 of 20, others 5 to 20 of 100', () => {
  const limits = (name: string) => {
    const { initialConnections, connections, messagesPerConnection } = PROVIDERS.byName(name)!;
    return [initialConnections, connections, messagesPerConnection];
  };
  assert.deepEqual(limits('google'), [5, 10, 50]);
  assert.deepEqual(limits('microsoft'), [5, 10, 50]);
  assert.deepEqual(limits('yahoo'), [5, 5, 20]);
  assert.deepEqual(limits('default'), [5, 20, 100]);
});

test('operator settings are merged key by key, and a new provider requires its MX hosts', () => {
  const merged = mergeProviders({
    default: { messagesPerMinute: 600 },
    google: { connections: 2 },
    acme: { match: ['mx.acme.example', '*.acme.example'], pauses: [{ reply: 'slow down', minutes: 30 }] },
  });
  const google = merged.byHost('smtp.google.com')!;
  assert.deepEqual([google.initialConnections, google.connections, google.messagesPerConnection], [2, 2, 50]);
  assert.equal(google.messagesPerMinute, 600);
  assert.deepEqual(merged.byHost('mx2.eu.acme.example')?.pauses, [{ reply: 'slow down', minutes: 30 }]);
  assert.equal(merged.byHost('mx.acme.example')?.connections, 20);
});

test('an invalid file is reported in one line with the value and the accepted form', (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'postrider-providers-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = path.join(folder, 'providers.json');
  const wrong: [text: string, expected: RegExp][] = [
    ['{"gogle": {"connections": 3}}', /^unknown provider "gogle" \(known: default, google, .*; others need "match"\)$/],
    ['{"google": {"conections": 3}}', /^unknown key "conections" of google \(known: match, .*\)$/],
    ['{"google": {"connections": 0}}', /^connections of google must be a whole number from 1 to 1000$/],
    ['{"google": {"connections": "3"}}', /^connections of google must be/],
    ['{"google": {"messagesPerMinute": 1.5}}', /^messagesPerMinute of google must be/],
    ['{"google": {"match": []}}', /^match of google must be a list of names/],
    ['{"google": {"match": ["*.*.example"]}}', /^match of google must be a list of names/],
    ['{"google": {"pauses": [{"reply": "x"}]}}', /^pauses of google must be a list/],
    ['{"default": {"match": ["x.example"]}}', /^default must not have "match"$/],
    ['{"relay": {"match": ["x.example"]}}', /^the provider name "relay" is reserved/],
    ['{"fallback": {"match": ["x.example"]}}', /^the provider name "fallback" is reserved: use another one/],
    ['{"sandbox": {"match": ["x.example"]}}', /^the provider name "sandbox" is reserved/],
    ['{"google": 3}', /^google must be an object$/],
    ['[]', /^must be an object of providers$/],
    ['{', /^is not JSON/],
  ];
  for (const [text, expected] of wrong) {
    writeFileSync(file, text);
    assert.throws(() => readProviders(file), { message: expected }, text);
  }
  assert.throws(() => readProviders(`${file}.none`), { message: 'cannot be read (ENOENT)' });
  writeFileSync(file, '{"yahoo": {"connections": 3}}');
  assert.equal(readProviders(file).byName('yahoo')?.connections, 3);
});
