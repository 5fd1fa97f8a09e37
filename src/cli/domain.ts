/** `postrider domain add | verify`. */
import { addDomain, type DnsRecord, domainOperation, knownRecords, verifyDomain } from '../domains/domains.ts';
import { openDns } from '../net/dns.ts';
import { type CommandCall, type CommandOutcome, columns, notFound, successOf, unknownAccount } from './command.ts';
import { withStore } from './store.ts';

function recordsText(records: DnsRecord[]): string {
  return records
    .map(
      (one) =>
        `\n${one.purpose} (${one.required ? 'required' : 'recommended'}): ${one.status}\n  ${one.type} ${one.name}\n  ${one.value}${one.note === null ? '' : `\n  ${one.note}`}`,
    )
    .join('\n');
}

export async function add(call: CommandCall<{ verified?: boolean }>): Promise<CommandOutcome> {
  const { config, clock, options } = call;
  const [accountId = '', domain = ''] = call.args;
  const added = await withStore(call, async ({ database, secretKey }) =>
    addDomain(
      { database, clock, secretKey: await secretKey() },
      { accountId, domain, verified: options.verified === true },
    ),
  );
  const made = successOf(added, unknownAccount(accountId)).domain;
  const data = { domainId: made.id, domain: made.domain, status: made.status };
  return { data, text: `${columns(data)}\n${recordsText(knownRecords(made, config.smtpHostname))}` };
}

export async function verify(call: CommandCall): Promise<CommandOutcome> {
  const { config, clock } = call;
  const [id = ''] = call.args;
  const dns = openDns({ servers: config.dnsServers });
  try {
    const { success, message, status, records } = await withStore(call, async ({ database }) => {
      const domain = await database.execute(domainOperation, { id, accountId: null });
      if (!domain) throw notFound(`there is no domain ${id}`);
      return verifyDomain({ database, clock, dns, sendingHost: config.smtpHostname }, domain);
    });
    const data = { success, message, domainId: id, status, dnsRecords: records };
    return { data, text: `${message}\n${recordsText(records)}`, exitCode: success ? 0 : 1 };
  } finally {
    dns.close();
  }
}
