import type { Answer } from '../../../clients/typescript/src/call.ts';

export const domains = {
  title: 'Domains',
  lead: 'You can send live email only from verified domains. A verified domain covers its subdomains.',
  sandbox: 'Switch to Live to manage domains. In the sandbox you can send from any address.',
  list: 'Sending domains',
  add: 'Add domain',
  name: 'Domain',
  nameHint: 'The part after the @ in your From addresses, e.g. shop.example.',
  submit: 'Add domain',
  status: 'Status',
  next: 'Next step',
  checked: 'Last checked',
  never: 'Never',
  /** Status of a domain that an operator marked as verified, and whose DKIM record was not found. */
  unsigned: 'DKIM not verified',
  added: 'Added',
  emptyTitle: 'No domains yet',
  emptyHint: 'Add the domain you send from, then publish its DNS records. It takes about ten minutes.',
  emptyViewer: 'Ask an owner or member to add one.',
  stops: 'Sending stops',
  stopped: 'Sending stopped',
  nextOf: {
    pending: 'Publish its DNS records',
    verified: 'None: ready to send',
    unsigned: 'Publish its DKIM record',
    failing: 'Republish the DKIM record',
  },
};

export const domainPage = {
  checkNow: 'Verify DNS records',
  rotate: 'Rotate DKIM keys',
  rotateHint: 'Generates new DKIM keys. The current keys keep signing until the new records are published.',
  remove: 'Delete',
  removed: (domain: string) => `${domain} deleted. Postrider rejects new emails from it, and queued ones bounce.`,
  panel: 'Status',
  lastCheck: 'Last checked',
  notChecked: 'Not checked yet',
  checking: 'Checking DNS…',
  every: 'Postrider checks every 30 seconds while this page is open.',
  foundElsewhere: 'The DKIM record was found. Switch to Live to finish verification.',
  pending:
    'Add the records below at your DNS provider. Postrider queries your provider’s name servers directly, so it usually finds them within minutes.',
  verified: (domain: string) => `Email from ${domain} and its subdomains is signed with DKIM. No action needed.`,
  recommended: 'Publish the remaining records below to improve deliverability.',
  verifiedByOperator:
    'An operator marked this domain as verified, so you can send. Emails fail DKIM until you publish the records below.',
  failing:
    'The DKIM record is missing, so receiving servers can’t verify your signatures. Republish it: Postrider rejects email from this domain 24 hours after the record disappeared.',
  records: 'DNS records',
  provider: 'Your DNS provider',
  providerHint: 'Names and values below have this provider’s format.',
  zone: 'Zone',
  zoneHint: 'The zone’s name at your provider.',
  steps: 'Instructions',
  type: 'Type',
  recordName: 'Name',
  empty: '(leave blank)',
  value: 'Value',
  published: 'Current value',
  ttl: 'TTL',
  ttlValue: 'Automatic, or 3600 seconds',
  copyName: (purpose: string) => `Copy name of ${purpose}`,
  copyValue: (purpose: string) => `Copy value of ${purpose}`,
  fullName: (name: string) => `Full name: ${name}`,
  required: 'Required',
  optional: 'Recommended',
  export: 'Export records',
  exportHint: 'Download all records as a zone file, or as Terraform for Cloudflare or Route 53.',
  save: 'Download',
  format: 'Format',
  zoneFile: 'Zone file',
  cloudflare: 'Cloudflare',
  route53: 'Route 53',
};

/** What each record is for. */
export const purposes = {
  rsa: {
    name: 'DKIM key (RSA)',
    why: 'Signs your email and proves that you own the domain. Supported by all mailbox providers.',
  },
  ed25519: {
    name: 'DKIM key (Ed25519)',
    why: 'Optional second signature with a modern algorithm. Used once the record is found.',
  },
  spf: {
    name: 'SPF',
    why: 'Authorizes Postrider to send for your domain. A domain can have only one SPF record.',
  },
  dmarc: {
    name: 'DMARC',
    why: 'Tells receiving servers how to handle email that fails authentication. Large mailbox providers require it.',
  },
  tracking: {
    name: 'Tracking domain (CNAME)',
    why: 'Serves unsubscribe and tracking links from your own domain.',
  },
  'return-path': {
    name: 'Return-Path',
    why: 'Receives bounces under your own domain, so SPF aligns with DMARC.',
  },
  'mta-sts': {
    name: 'TLS policy of the Return-Path (MTA-STS)',
    why: 'Requires TLS for bounces sent to you. A web server must also serve the policy file over HTTPS.',
  },
  'tls-rpt': {
    name: 'TLS reports of the Return-Path',
    why: 'Requests reports about TLS failures for bounces.',
  },
};

export const statuses = { missing: 'Missing', different: 'Incorrect' };

/** A record’s status and what to do about it. The detailed result of the check follows it. */
export const found: Record<Answer<'getDomainDnsRecords'>[number]['status'], string> = {
  verified: 'Record found.',
  missing: 'Record not found. Add it with the name and value below.',
  different: 'Found a different value. Replace it with the value below, and keep only one record of this kind.',
  unknown: 'Postrider couldn’t check this record and will retry automatically.',
  pending: 'Not checked yet.',
};

const whole = 'Paste the value as one string, without quotes.';
const apart = 'The value is split into quoted strings of 255 characters. Paste all of it, including the quotes.';

export const providers = {
  other: {
    name: 'Other provider',
    steps: [
      'Open your domain’s DNS settings and add each record below.',
      'If your provider appends the domain automatically, enter only the part before it.',
      'Paste the value without quotes. If it’s too long, split it into quoted strings of 255 characters.',
    ],
  },
  cloudflare: {
    name: 'Cloudflare',
    steps: [
      'In the Cloudflare dashboard, go to your domain → DNS → Records → Add record, and choose the record type.',
      `@ is the domain itself. ${whole} Cloudflare adds the quotes.`,
      'TXT records are never proxied. For A/AAAA/CNAME records, set Proxy status to “DNS only”.',
    ],
  },
  route53: {
    name: 'Amazon Route 53',
    steps: [
      'In the Route 53 console, go to Hosted zones → your zone → Create record, and choose the record type.',
      `Leave the name blank for the domain itself. ${apart}`,
      'Route 53 keeps all TXT values of a name in one record. If one exists, edit it and add this value on a new line.',
    ],
  },
  squarespace: {
    name: 'Squarespace (formerly Google Domains)',
    steps: [
      'Go to Domains → your domain → DNS → DNS settings → Custom records → Add record, and choose the record type.',
      `Enter the name as Host; @ is the domain itself. ${whole}`,
    ],
  },
  godaddy: {
    name: 'GoDaddy',
    steps: [
      'Go to My Products → your domain → DNS → Add New Record, and choose the record type.',
      `GoDaddy appends the domain to the name; @ is the domain itself. ${whole}`,
    ],
  },
  namecheap: {
    name: 'Namecheap',
    steps: [
      'Go to Domain List → Manage → Advanced DNS → Add New Record, and choose the record type.',
      `Namecheap appends the domain to the host; @ is the domain itself. ${whole}`,
    ],
  },
  hetzner: {
    name: 'Hetzner',
    steps: ['Go to DNS → your zone → Add record, and choose the record type.', `@ is the domain itself. ${apart}`],
  },
  ovh: {
    name: 'OVHcloud',
    steps: [
      'Go to Web Cloud → Domain names → your domain → DNS zone → Add an entry, and choose the record type. Don’t use the SPF, DKIM, and DMARC assistants.',
      `Leave the subdomain blank for the domain itself. ${whole}`,
    ],
  },
  ionos: {
    name: 'IONOS',
    steps: [
      'Go to Domains & SSL → your domain → DNS → Add record, and choose the record type.',
      `@ is the domain itself. ${whole}`,
    ],
  },
  gandi: {
    name: 'Gandi',
    steps: [
      'Go to Domain → your domain → DNS Records → Add record, and choose the record type.',
      `@ is the domain itself. ${apart}`,
    ],
  },
  digitalocean: {
    name: 'DigitalOcean',
    steps: [
      'Go to Networking → Domains → your domain, and choose the record type.',
      `@ is the domain itself. ${whole}`,
    ],
  },
};
