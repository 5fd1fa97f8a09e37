/** `postrider domain add | verify`. */
import { addDomain, type DnsRecord, domainOperation, knownRecords, verifyDomain } from '../domains/domains.ts';
import { openDns } from '../net/dns.ts';
import { type Command, CommandError, columns, successOf } from './command.ts';
import { withStore } from './store.ts';

function recordsText(records: DnsRecord[]): string {
  return records
    .map(
      (one) =>
        `\n${one.purpose} (${one.required ? 'required' : 'recommended'}): ${one.status}\n  ${one.type} ${one.name}\n  ${one.value}${one.note === null ? '' : `\n  ${one.note}`}`,
    )
    .join('\n');
}

const add: Command = {
  words: 'domain add',
  usage: 'ACCOUNTID DOMAIN [--verified]',
  summary: 'add a sender domain; --verified spares the look-up in the DNS',
  options: { verified: { type: 'boolean' } },
  positionals: ['ACCOUNTID', 'DOMAIN'],
  run: async ({ config, clock, options, positionals: [accountId = '', domain = ''] }) => {
    const wish = { accountId, domain, verified: options.verified === true };
    const added = await withStore({ config, clock }, async (store) =>
      addDomain({ database: store.database, clock, secretKey: await store.secretKey() }, wish),
    );
    const made = successOf(added, `there is no account ${accountId}; see postrider account list`).domain;
    const dnsRecords = knownRecords(made, config.smtpHostname);
    const head = { domainId: made.id, domain: made.domain, status: made.status };
    return { data: head, text: `${columns(Object.entries(head))}\n${recordsText(dnsRecords)}` };
  },
};

const verify: Command = {
  words: 'domain verify',
  usage: 'DOMAINID',
  summary: 'look for the DKIM record of a domain in the DNS',
  options: {},
  positionals: ['DOMAINID'],
  run: async ({ config, clock, positionals: [id = ''] }) => {
    const dns = openDns({ servers: config.dnsServers });
    try {
      const { success, message, status, records } = await withStore({ config, clock }, async ({ database }) => {
        const domain = await database.execute(domainOperation, { id, accountId: null });
        if (!domain) throw new CommandError('NOT_FOUND', `there is no domain ${id}`);
        return verifyDomain({ database, clock, dns, sendingHost: config.smtpHostname }, domain);
      });
      const data = { success, message, domainId: id, status, dnsRecords: records };
      return { data, text: `${message}\n${recordsText(records)}`, exitCode: success ? 0 : 1 };
    } finally {
      dns.close();
    }
  },
};

export const domainCommands: Command[] = [add, verify];
