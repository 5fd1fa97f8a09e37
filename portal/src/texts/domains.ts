import type { DnsRecord } from '../pages/domains/zone.ts';

export const domains = {
  title: 'Domains',
  lead: 'Live mail leaves only from domains that are verified here. A domain covers its subdomains.',
  sandbox: 'Domains are shared with live mail and changed in Live. In the sandbox you may send from any address.',
  list: 'Domains that you send from',
  add: 'Add a domain',
  name: 'Domain',
  nameHint: 'What stands behind the @ of your senders, such as shop.example.',
  submit: 'Add the domain',
  status: 'Status',
  next: 'What to do',
  checked: 'Last checked',
  never: 'Not yet',
  added: 'Added',
  emptyTitle: 'No domain yet',
  emptyHint: 'Add the domain that your mail comes from, then publish its DNS records. That takes about ten minutes.',
  emptyViewer: 'An owner or member of the account can add one.',
  nextOf: {
    pending: 'Publish its DNS records',
    verified: 'Nothing: mail leaves signed',
    failing: 'Publish its DKIM record again',
  },
};

export const domainPage = {
  checkNow: 'Check now',
  rotate: 'Rotate keys',
  rotateHint: 'Makes the DKIM keys that sign next. The present ones go on signing until the new records are published.',
  remove: 'Remove',
  removed: (domain: string) => `${domain} is removed. Mail from it is refused, and what waits bounces.`,
  panel: 'Status',
  lastCheck: 'Last checked',
  notChecked: 'Not checked yet.',
  checking: 'Looking at the DNS…',
  every: 'This page looks at the DNS every 30 seconds and turns green by itself.',
  foundElsewhere: 'The DKIM record is in the DNS. Check the domain in Live to finish.',
  pending: 'Your turn: publish the records below at your DNS provider. A new record can take up to an hour to be seen.',
  verified: (domain: string) => `Nothing to do: mail from ${domain} and its subdomains leaves signed.`,
  recommended: 'The records below that are not verified help your mail into inboxes.',
  vouched:
    'An operator vouched for this domain, so mail leaves. Publish the records all the same: receivers look for them.',
  failing:
    'Your turn: the DKIM record was in the DNS and is not any more. Receivers cannot check the signature of your mail, and a day later no more is accepted. Publish the record again.',
  records: 'DNS records',
  provider: 'Your DNS provider',
  providerHint: 'Where the records of your domain are kept. Names and values below are as its form wants them.',
  zone: 'Zone',
  zoneHint: 'The domain as your provider lists it.',
  steps: 'How to enter them',
  type: 'Type',
  recordName: 'Name',
  empty: '(leave empty)',
  value: 'Value',
  published: 'Published now',
  ttl: 'TTL',
  ttlValue: 'Automatic, or 3600 seconds',
  copyName: (purpose: string) => `Copy the name of ${purpose}`,
  copyValue: (purpose: string) => `Copy the value of ${purpose}`,
  fullName: (name: string) => `The whole name is ${name}.`,
  required: 'Required',
  optional: 'Recommended',
  export: 'Export all records',
  exportHint: 'All records at once, as a zone file or for Terraform.',
  save: 'Save the file',
  format: 'Format',
  zoneFile: 'Zone file',
  cloudflare: 'Terraform, Cloudflare',
  route53: 'Terraform, Route 53',
};

/** What each record is for. */
export const purposes = {
  rsa: {
    name: 'DKIM key (RSA)',
    why: 'Signs your mail. Every receiver understands this one, and it proves that the domain is yours.',
  },
  ed25519: {
    name: 'DKIM key (Ed25519)',
    why: 'A second, shorter signature. Mail is signed with it too once it is found.',
  },
  spf: {
    name: 'SPF',
    why: 'Tells receivers that this service may send for your domain. A domain has one SPF record only.',
  },
  dmarc: {
    name: 'DMARC',
    why: 'Tells receivers what to do with mail that only pretends to be yours. Large mailbox providers ask for it.',
  },
  tracking: {
    name: 'Links',
    why: 'Links of your mail (unsubscribe, tracking) lead to a host of your own name, which receivers see as yours.',
  },
  'return-path': {
    name: 'Return path',
    why: 'Bounces come back under a name of your own, which receivers see as yours.',
  },
  'mta-sts': {
    name: 'TLS policy of the return path (MTA-STS)',
    why: 'Others then bring bounces in TLS only. The policy itself is a file that a web server gives out.',
  },
  'tls-rpt': {
    name: 'TLS reports of the return path',
    why: 'Others then report where TLS failed when they brought bounces.',
  },
};

export const statuses = { missing: 'Missing', different: 'Different' };

/** How a record is, and what to do; what the service has found out in detail comes behind it. */
export const found: Record<DnsRecord['status'], string> = {
  verified: 'Found in the DNS as it should be.',
  missing: 'Not in the DNS yet. Add it with the name and value below.',
  different:
    'Something else is published under this name. Leave one record of this kind there, with exactly the value below.',
  unknown: 'The DNS did not answer, or it cannot be known from here. Nothing to do yet: it is looked up again.',
  pending: 'Not looked up yet.',
};

const whole = 'Paste the value as it is, in one piece and without quotes.';
const apart = 'The value is in quotes and cut after 255 characters. Paste all of it, quotes included.';

export const providers = {
  other: {
    name: 'Another provider',
    steps: [
      'Open the DNS records of your domain and add a record for each one below, of the type that it says.',
      'If the form adds your domain to the name by itself, enter only the part before it.',
      'Paste the value without quotes. If a value is refused as too long, cut it into quoted strings of 255 characters.',
    ],
  },
  cloudflare: {
    name: 'Cloudflare',
    steps: [
      'In the dashboard choose the domain, then DNS, Records, Add record, and the type that the record below says.',
      `@ stands for the domain itself. ${whole} Cloudflare adds the quotes.`,
      'TXT records are never proxied. If you add an address record for mail as well, turn its proxy off (DNS only).',
    ],
  },
  route53: {
    name: 'Amazon Route 53',
    steps: [
      'Open Hosted zones, choose the zone, then Create record, and the type that the record below says.',
      `Leave the name empty for the domain itself. ${apart}`,
      'One record holds all TXT values of a name: if one is there, edit it and put this value on a line of its own.',
    ],
  },
  squarespace: {
    name: 'Squarespace (formerly Google Domains)',
    steps: [
      'Open Domains, choose the domain, then DNS, DNS settings, and Add record under Custom records.',
      `Host is the name; @ stands for the domain itself. ${whole}`,
    ],
  },
  godaddy: {
    name: 'GoDaddy',
    steps: [
      'Open My products, then DNS beside the domain, Add new record, and the type that the record below says.',
      `GoDaddy adds the domain to the name; @ stands for the domain itself. ${whole}`,
    ],
  },
  namecheap: {
    name: 'Namecheap',
    steps: [
      'Open Domain list, Manage, Advanced DNS, then Add new record, and the type that the record below says.',
      `Namecheap adds the domain to the host; @ stands for the domain itself. ${whole}`,
    ],
  },
  hetzner: {
    name: 'Hetzner',
    steps: [
      'Open DNS, choose the zone, then Add record, and the type that the record below says.',
      `@ stands for the domain itself. ${apart}`,
    ],
  },
  ovh: {
    name: 'OVHcloud',
    steps: [
      'Open Web Cloud, Domain names, choose the domain, then DNS zone, Add an entry, and the type that the record below says (not the assistants for SPF, DKIM or DMARC).',
      `Leave the subdomain empty for the domain itself. ${whole}`,
    ],
  },
  ionos: {
    name: 'IONOS',
    steps: [
      'Open Domains & SSL, choose the domain, then DNS, Add record, and the type that the record below says.',
      `@ stands for the domain itself. ${whole}`,
    ],
  },
  gandi: {
    name: 'Gandi',
    steps: [
      'Open Domain, choose the domain, then DNS records, Add record, and the type that the record below says.',
      `@ stands for the domain itself. ${apart}`,
    ],
  },
  digitalocean: {
    name: 'DigitalOcean',
    steps: [
      'Open Networking, Domains, choose the domain, then the type that the record below says.',
      `@ stands for the domain itself. ${whole}`,
    ],
  },
};
