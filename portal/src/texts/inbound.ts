/** What is read of mail that came in, and of the routes that it comes in by. */
export const inboundMail = {
  title: 'Inbound',
  lead: 'Emails received by your inbound routes.',
  list: 'Received emails',
  columns: { subject: 'Subject', from: 'From', to: 'To', outcome: 'Status', size: 'Size', received: 'Received' },
  noSubject: '(no subject)',
  nobody: '(empty sender — bounce)',
  route: 'Inbound route',
  anyRoute: 'All routes',
  outcome: 'Outcome',
  anyOutcome: 'All statuses',
  clear: 'Clear filters',
  none: 'No inbound emails yet',
  noneHint: 'Emails sent to your inbound routes appear here.',
  noneSandbox: 'Simulate one with POST /sandbox/inbound. (better: a “Send test email” form)',
  noneFiltered: 'No emails match your filters',
  noneFilteredHint: 'Try removing a filter.',
  toRoutes: 'Inbound routes',
  files: (number: number) => `${number} ${number === 1 ? 'file' : 'files'}`,
};

export const outcomes = {
  event: { name: 'Event', why: 'An Inbound event was sent to your webhooks.' },
  'auto-reply': {
    name: 'Automatic reply',
    why: 'Auto-reply (e.g. out of office). No event is sent, to prevent mail loops.',
  },
  'own-mail': { name: 'Loop prevented — This email was sent by your own account. No event is sent.', why: 'It is a mail of this account that came back. It has no event.' },
  'too-many-hops': {
    name: 'Mail loop — The email passed through more than 30 servers. No event is sent.',
    why: 'It passed more than 30 servers, as mail does that goes round. It has no event.',
  },
};

export const inboundPage = {
  parent: 'Inbound mail',
  lead: (from: string, to: string) => `From ${from} to ${to}`,
  download: 'Download .eml',
  facts: 'Details',
  names: {
    outcome: 'Outcome',
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
    id: 'Id',
  },
  toMessage: 'View original message',
  toRoute: 'View route (show the route’s match)',
  program: 'Automated',
  reply: 'Reply text',
  replyHint: 'Without quoted text and signature, as in the webhook event.',
  attachments: 'Attachments',
  attachmentsHint: 'Attachments come from an external sender. Open them with care.',
  unreadable: 'Parts of this email couldn’t be parsed.',
  gone: 'Content deleted',
  goneHint: 'Content is deleted after your retention period. Metadata is kept.',
};

const temporary = 'DNS lookup failed (temporary error)';
const broken = 'The domain’s record is invalid';
const named = (domain: string | null): string => domain ?? 'the domain';
/** In front of a sentence. */
const first = (domain: string | null): string => domain ?? 'The domain';

/** What is said of SPF, DKIM, DMARC and ARC (RFC 8601). */
export const authentication = {
  title: 'Sender authentication',
  hint: 'Checked on arrival. Forwarded or mailing-list email can fail and still be legitimate.',
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
    permerror: 'Error',
  },
  unsigned: 'No signature',
  spf: (result: string, domain: string | null): string => {
    if (result === 'pass') return `${first(domain)} authorizes this server`;
    if (result === 'fail') return `${first(domain)} does not authorize this server`;
    if (result === 'softfail') return `${first(domain)} probably does not authorize this server`;
    if (result === 'temperror') return temporary;
    if (result === 'permerror') return broken;
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
    if (result === 'permerror') return 'From cannot be checked';
    if (result === 'none') return `${first(domain)} has no DMARC policy`;
    if (policy === 'reject') return `From is not proven, and ${named(domain)} asks to reject such mail`;
    if (policy === 'quarantine') return `Failed; ${named(domain)}’s policy is quarantine`;
    return `Failed; ${named(domain)}’s policy is none`;
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
  create: 'New route',
  columns: { match: 'Mail for', target: 'Goes to', mx: 'MX record', checked: 'Checked', size: 'Largest mail' },
  webhooks: 'Webhooks subscribed to Inbound',
  nowhere: 'Store only',
  empty: 'No inbound routes yet',
  emptyHint: 'Routes receive email for an address, a prefix or a whole domain and turn each into an event.',
  never: 'Never',
};

export const routePage = {
  parent: 'Inbound routes',
  mail: 'View emails',
  verify: 'Verify MX record',
  edit: 'Edit',
  remove: 'Delete',
  removed: (match: string) => `The route ${match} is deleted.`,
  about: 'Details',
  names: {
    match: 'Mail for',
    url: 'Webhook URL',
    webhook: 'Dedicated webhook',
    events: 'Webhooks',
    size: 'Largest mail',
    id: 'Id',
    created: 'Created',
    updated: 'Last updated',
  },
  toWebhook: 'Deliveries and secret',
  getIt: 'All webhooks subscribed to Inbound',
  doNot: 'Only this route’s webhook',
  listedOnly: 'None (store only)',
  mx: 'MX record',
  found: 'MX record found. Email for this domain is delivered here.',
  ask: 'Add this record at your DNS provider. Email is accepted even before verification completes.',
  every: 'We check every 30 seconds. This page updates automatically.',
  caution: 'Changing a domain’s MX record redirects all of its email. Use a subdomain if the domain has mailboxes.',
  record: { type: 'Type', name: 'Name', priority: 'Priority', value: 'Value', published: 'Published now' },
  copyName: 'Copy the name',
  copyValue: 'Copy the value',
  lastCheck: 'Last check',
  notChecked: 'Not checked yet',
  sandbox: 'Sandbox routes don’t receive external email. Use the API to simulate one.',
};

export const routeForm = {
  createTitle: 'New inbound route',
  editTitle: 'Edit route',
  match: 'Mail for',
  matchHint: 'One address; a prefix such as reply+*@in.shop.example; or *@in.shop.example for every address.',
  url: 'Webhook URL (optional)',
  urlHint: 'Creates a dedicated webhook with its own signing secret. Leave blank to use your existing webhooks.',
  events: 'Also send to webhooks subscribed to Inbound',
  size: 'Maximum size (MB)',
  sizeHint: 'Larger emails are rejected. Maximum 25 MB.',
  sizeBad: 'Must be a number from 0.001 to 25.',
  cancel: 'Cancel',
  create: 'Create route',
  save: 'Save',
  saved: 'Route saved',
};
