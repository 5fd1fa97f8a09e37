/** The list of mailbox domains, and its providers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import providers from '../delivery/destinations/providers.json' with { type: 'json' };
import { domainToAscii } from './address.ts';
import mailboxDomains from './mailbox-domains.json' with { type: 'json' };
import { MAILBOX_DOMAINS, mailboxProviderOf } from './mailbox-provider.ts';

test('the domains of the large providers are known, and similar ones are not', () => {
  const expected: [domain: string, provider: string | undefined][] = [
    ['gmail.com', 'google'],
    ['googlemail.com', 'google'],
    ['hotmail.co.uk', 'microsoft'],
    ['live.nl', 'microsoft'],
    ['yahoo.fr', 'yahoo'],
    ['aol.com', 'yahoo'],
    ['me.com', 'apple'],
    ['gmx.de', 'gmx'],
    ['web.de', 'gmx'],
    ['t-online.de', 't-online'],
    // Another company with its own mail servers.
    ['yahoo.co.jp', undefined],
    ['mail.gmail.com', undefined],
    ['gmail.com.example', undefined],
    ['constructor', undefined],
    ['', undefined],
  ];
  for (const [domain, provider] of expected) assert.equal(mailboxProviderOf(domain), provider, domain);
});

test('each domain is in the list once, in the form in which statistics count it', () => {
  const all = Object.values(mailboxDomains).flat();
  assert.equal(MAILBOX_DOMAINS.length, all.length, 'no domain is in the list twice');
  for (const domain of all) assert.equal(domainToAscii(domain), domain);
});

test('mailbox providers and destinations have the same names', () => {
  const { default: standard, ...known } = providers;
  assert.deepEqual(Object.keys(mailboxDomains), Object.keys(known));
});
