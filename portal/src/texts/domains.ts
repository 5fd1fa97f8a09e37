import type { DnsRecord } from '../pages/domains/zone.ts';

export const domains = {
  title: 'Domains',
  lead: 'You can send live email only from verified domains. Verifying a domain also covers its subdomains.',
  sandbox: 'Domains are managed in Live. In the sandbox you can send from any address.',
  list: 'Sending domains',
  add: 'Add domain',
  name: 'Domain',
  nameHint: 'The part after the @ in your From addresses, e.g. shop.example.',
  submit: 'Add domain',
  status: 'Status',
  next: 'Next step',
  checked: 'Last checked',
  never: 'Never',
  added: 'Added',
  emptyTitle: 'No domains yet',
  emptyHint: 'Add the domain you send from, then publish its DNS records. It takes about ten minutes.',
  emptyViewer: 'Ask an owner or member to add one.',
  nextOf: {
    pending: 'Publish its DNS records',
    verified: 'None — ready to send (and not for a vouched domain whose DKIM record is missing)',
    failing: 'Republish the DKIM record',
  },
};

export const domainPage = {
  checkNow: 'Verify DNS records',
  rotate: 'Rotate DKIM keys',
  rotateHint: 'Generates new DKIM keys. The current keys keep signing until the new records are published.',
  remove: 'Remove',
  removed: (domain: string) => `${domain} deleted. New emails from it are rejected and queued ones will bounce.`,
  panel: 'Status',
  lastCheck: 'Last checked',
  notChecked: 'Not verified yet',
  checking: 'Checking DNS…',
  every: 'We check every 30 seconds. This page updates automatically.',
  foundElsewhere: 'The DKIM record was found. Switch to Live to finish verification.',
  pending: 'Add the records below at your DNS provider. Changes can take up to an hour to propagate.',
  verified: (domain: string) => `Verified. Email from ${domain} and its subdomains is signed with DKIM.`,
  recommended: 'Adding the remaining recommended records improves deliverability.',
  vouched:
    'Approved by your operator: you can send, but emails fail DKIM until you publish the records below.',
  failing:
    'The DKIM record is missing. Receivers can’t verify your signature, and sending will be blocked after 24 hours. Republish the record.',
  records: 'DNS records',
  provider: 'Your DNS provider',
  providerHint: 'Names and values below are formatted for this provider.',
  zone: 'Zone',
  zoneHint: 'The zone name at your provider.',
  steps: 'Instructions',
  type: 'Type',
  recordName: 'Name',
  empty: '(leave blank)',
  value: 'Value',
  published: 'Current value',
  ttl: 'TTL',
  ttlValue: 'Automatic, or 3600 seconds',
  copyName: (purpose: string) => `Copy ${purpose} name`,
  copyValue: (purpose: string) => `Copy the value of ${purpose}`,
  fullName: (name: string) => `Full name: ${name}`,
  required: 'Required',
  optional: 'Recommended',
  export: 'Export records',
  exportHint: 'Download all records as a zone file or Terraform.',
  save: 'Download',
  format: 'Format',
  zoneFile: 'Zone file',
  cloudflare: 'Terraform, Cloudflare',
  route53: 'Terraform, Route 53',
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
    why: 'Authorizes this server to send for your domain. Keep a single SPF record per domain.',
  },
  dmarc: {
    name: 'DMARC',
    why: 'Tells receivers how to handle email that fails authentication. Required by large mailbox providers.',
  },
  tracking: {
    name: 'Tracking domain (CNAME)',
    why: 'Serves unsubscribe and tracking links from your own domain.',
  },
  'return-path': {
    name: 'Return path',
    why: 'Custom Return-Path: bounces return to your own domain, which aligns SPF with DMARC.',
  },
  'mta-sts': {
    name: 'TLS policy of the return path (MTA-STS)',
    why: 'Requires TLS for bounces sent to you. The policy file must also be served over HTTPS.',
  },
  'tls-rpt': {
    name: 'TLS reports of the return path',
    why: 'Receive reports about TLS failures for bounces.',
  },
};

export const statuses = { missing: 'Missing', different: 'Incorrect' };

/** How a record is, and what to do; what the service has found out in detail comes behind it. */
export const found: Record<DnsRecord['status'], string> = {
  verified: 'Record found.',
  missing: 'Record not found. Add it at your DNS provider.',
  different:
    'Found a different value. Replace it with the value below and keep only one record of this type.',
  unknown: 'DNS lookup failed. We’ll retry automatically.',
  pending: 'Not checked yet',
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
      'In the Cloudflare dashboard, select your domain → DNS → Records → Add record, and choose the record type. (same pattern for the ten other providers: “X → Y → Z”, “choose the record type”)',
      `@ stands for the domain itself. ${whole} Cloudflare adds the quotes.`,
      'TXT records are never proxied. For A/AAAA/CNAME records, set Proxy status to “DNS only”.',
    ],
  },
  route53: {
    name: 'Amazon Route 53',
    steps: [
      'Open Hosted zones, choose the zone, then Create record, and the type that the record below says.',
      `Leave the name empty for the domain itself. ${apart}`,
      'Route 53 keeps all TXT values of a name in one record. If one exists, edit it and add this value on a new line.',
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
