/** Texts about inbound emails and inbound routes. */
export const inboundMail = {
  title: 'Inbound',
  lead: 'Emails received by your inbound routes, newest first.',
  list: 'Received emails',
  columns: { subject: 'Subject', from: 'From', to: 'To', outcome: 'Status', size: 'Size', received: 'Received' },
  noSubject: '(no subject)',
  nobody: '(empty sender, as in bounces)',
  route: 'Inbound route',
  anyRoute: 'All routes',
  outcome: 'Status',
  anyOutcome: 'All statuses',
  none: 'No inbound emails yet',
  noneHint: 'Emails sent to your inbound routes appear here.',
  noneSandbox: 'Emails that you simulate appear here. Sandbox routes don’t receive external email.',
  noneFiltered: 'No emails match your filters',
  noneFilteredHint: 'Try removing a filter.',
  toRoutes: 'Inbound routes',
  files: (number: number) => `${number} ${number === 1 ? 'attachment' : 'attachments'}`,
};

export const outcomes = {
  event: { name: 'Processed', why: 'An Inbound event was created for your webhooks.' },
  'auto-reply': {
    name: 'Automatic reply',
    why: 'An automatic reply, e.g. an out-of-office note. It creates no event, to prevent mail loops.',
  },
  'own-mail': {
    name: 'Own email',
    why: 'This account sent the email itself. It creates no event, to prevent mail loops.',
  },
  'too-many-hops': {
    name: 'Mail loop',
    why: 'The email passed through more than 30 servers, which indicates a mail loop. It creates no event.',
  },
};

export const inboundPage = {
  parent: 'Inbound',
  lead: (from: string, to: string) => `From ${from} to ${to}`,
  download: 'Download .eml',
  facts: 'Details',
  names: {
    outcome: 'Status',
    from: 'From',
    to: 'To',
    envelopeFrom: 'Envelope sender',
    replies: 'In reply to',
    route: 'Inbound route',
    event: 'Event ID',
    automatic: 'Auto-submitted',
    headerId: 'Message-ID',
    size: 'Size',
    received: 'Received',
    id: 'ID',
  },
  toMessage: 'View original message',
  toRoute: 'View route',
  program: 'Yes',
  reply: 'Reply text',
  replyHint: 'Without the quoted text and signature, as in the webhook event.',
  attachments: 'Attachments',
  attachmentsHint: 'Attachments come from an external sender. Open them with care.',
  unreadable: 'Parts of this email couldn’t be read.',
  gone: 'Content deleted',
  goneHint: 'Content is deleted after your content retention period. Addresses and metadata are kept.',
};

const temporary = 'DNS lookup failed (temporary error)';
const broken = 'The domain’s record is invalid';
const named = (domain: string | null): string => domain ?? 'the domain';
/** For the start of a sentence. */
const first = (domain: string | null): string => domain ?? 'The domain';

/** Results of SPF, DKIM, DMARC, and ARC (RFC 8601). */
export const authentication = {
  title: 'Sender authentication',
  hint: 'Checked on arrival. Forwarded and mailing-list email can fail and still be legitimate.',
  names: { spf: 'SPF', dmarc: 'DMARC', arc: 'ARC' },
  signature: (number: number, count: number): string => (count > 1 ? `DKIM ${number}` : 'DKIM'),
  words: {
    none: 'None',
    neutral: 'Neutral',
    pass: 'Pass',
    fail: 'Fail',
    softfail: 'Soft fail',
    policy: 'Policy',
    temperror: 'Temporary error',
    permerror: 'Permanent error',
  },
  unsigned: 'No signature',
  spf: (result: string, domain: string | null): string => {
    if (result === 'pass') return `${first(domain)} authorizes this server`;
    if (result === 'fail') return `${first(domain)} does not authorize this server`;
    if (result === 'softfail') return `${first(domain)} probably does not authorize this server`;
    if (result === 'temperror') return temporary;
    if (result === 'permerror') return broken;
    if (result === 'neutral') return `${first(domain)} doesn’t say whether this server is authorized`;
    return `${first(domain)} has no SPF record`;
  },
  dkim: (result: string, domain: string | null): string => {
    if (result === 'pass') return `Valid signature from ${named(domain)}`;
    if (result === 'fail') return `Signature from ${named(domain)} is invalid (forged or modified)`;
    if (result === 'temperror') return temporary;
    return `Signature from ${named(domain)} couldn’t be checked`;
  },
  dmarc: ({ result, policy, domain }: { result: string; policy: string | null; domain: string | null }): string => {
    if (result === 'pass') return `The From domain ${named(domain)} is authenticated`;
    if (result === 'temperror') return temporary;
    if (result === 'permerror') return 'The From domain can’t be checked';
    if (result === 'none') return `${first(domain)} has no DMARC policy`;
    if (policy === 'reject') return `Failed: the policy of ${named(domain)} is reject`;
    if (policy === 'quarantine') return `Failed: the policy of ${named(domain)} is quarantine`;
    return `Failed: the policy of ${named(domain)} is none`;
  },
  arc: {
    none: 'No valid ARC chain',
    pass: 'Valid ARC chain',
    fail: 'Broken ARC chain',
  },
};

export const inboundRoutes = {
  title: 'Inbound routes',
  lead: 'Receive email at your addresses and forward it to your application.',
  list: 'Inbound routes',
  create: 'Create route',
  columns: { match: 'Address', target: 'Destination', mx: 'MX record', checked: 'Last checked', size: 'Maximum size' },
  webhooks: 'Webhooks subscribed to Inbound',
  nowhere: 'Store only',
  empty: 'No inbound routes yet',
  emptyHint:
    'A route receives email for an address, a prefix, or an entire domain, and turns each email into an event.',
  never: 'Never',
};

export const routePage = {
  parent: 'Inbound routes',
  mail: 'View emails',
  verify: 'Verify MX record',
  edit: 'Edit',
  remove: 'Delete',
  removed: (match: string) => `Route ${match} deleted`,
  about: 'Details',
  names: {
    match: 'Address',
    url: 'Webhook URL',
    webhook: 'Dedicated webhook',
    events: 'Webhooks',
    size: 'Maximum size',
    id: 'ID',
    created: 'Created',
    updated: 'Last updated',
  },
  toWebhook: 'Deliveries and secret',
  getIt: 'All webhooks subscribed to Inbound',
  doNot: 'Only this route’s webhook',
  listedOnly: 'None (store only)',
  mx: 'MX record',
  found: 'MX record found. Email for this domain is delivered to Postrider.',
  ask: 'Add this record at your DNS provider. Postrider accepts email even before it finds the record.',
  every: 'Postrider checks every 30 seconds. This page updates automatically.',
  caution: 'Changing a domain’s MX record redirects all of its email. Use a subdomain if the domain has mailboxes.',
  record: { type: 'Type', name: 'Name', priority: 'Priority', value: 'Value', published: 'Current value' },
  copyName: 'Copy name',
  copyValue: 'Copy value',
  lastCheck: 'Last checked',
  notChecked: 'Not checked yet',
  sandbox: 'Sandbox routes don’t receive external email. Simulate emails here or with the API.',
};

export const simulateInbound = {
  open: 'Simulate email',
  title: 'Simulate an inbound email',
  lead: 'Postrider processes it like a received email and sends the Inbound event to your sandbox webhooks.',
  to: 'To',
  toHint: 'Must match an inbound route of the sandbox.',
  from: 'From',
  subject: 'Subject',
  text: 'Text',
  exampleSubject: 'A question about my order',
  exampleText: 'Hello,\n\nwhen will my order arrive?\n',
  submit: 'Simulate',
};

export const routeForm = {
  createTitle: 'Create inbound route',
  editTitle: 'Edit inbound route',
  match: 'Address',
  matchHint: 'One address, a prefix (reply+*@in.shop.example), or all addresses of a domain (*@in.shop.example).',
  url: 'Webhook URL (optional)',
  urlHint: 'Creates a dedicated webhook with its own signing secret. Leave blank to use your other webhooks.',
  events: 'Also send to webhooks subscribed to Inbound',
  size: 'Maximum size (MB)',
  sizeHint: 'Larger emails are rejected. Maximum 25 MB.',
  sizeBad: 'Must be a number from 0.001 to 25.',
  create: 'Create route',
  save: 'Save',
  saved: 'Route saved',
};
