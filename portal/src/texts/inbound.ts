/** What is read of mail that came in, and of the routes that it comes in by. */
export const inboundMail = {
  title: 'Inbound mail',
  lead: 'Mail that came in for your inbound routes, newest first.',
  list: 'Mail that came in',
  columns: { subject: 'Subject', from: 'From', to: 'To', outcome: 'Outcome', size: 'Size', received: 'Received' },
  noSubject: '(no subject)',
  nobody: '(nobody, as bounces are)',
  route: 'Inbound route',
  anyRoute: 'Any route',
  outcome: 'Outcome',
  anyOutcome: 'Any outcome',
  clear: 'Show all',
  none: 'No mail came in yet',
  noneHint: 'It appears here when somebody writes to an address of an inbound route.',
  noneSandbox: 'It appears here when you play one in: POST /sandbox/inbound.',
  noneFiltered: 'No mail fits these filters',
  noneFilteredHint: 'Take one of them away to see more.',
  toRoutes: 'Inbound routes',
  files: (number: number) => `${number} ${number === 1 ? 'file' : 'files'}`,
};

export const outcomes = {
  event: { name: 'Event', why: 'Your application was notified by an event.' },
  'auto-reply': {
    name: 'Automatic reply',
    why: 'A program wrote it in reply to a mail. It has no event, so that two programs do not write to one another for ever.',
  },
  'own-mail': { name: 'Own mail', why: 'It is a mail of this account that came back. It has no event.' },
  'too-many-hops': {
    name: 'Goes round',
    why: 'It passed more than 30 servers, as mail does that goes round. It has no event.',
  },
};

export const inboundPage = {
  parent: 'Inbound mail',
  lead: (from: string, to: string) => `From ${from} to ${to}`,
  download: 'Download the mail',
  facts: 'Details',
  names: {
    outcome: 'Outcome',
    from: 'From',
    to: 'To',
    envelopeFrom: 'Envelope sender',
    replies: 'Replies to',
    route: 'Inbound route',
    event: 'Event id',
    automatic: 'Written by',
    headerId: 'Message-ID',
    size: 'Size',
    received: 'Received',
    id: 'Id',
  },
  toMessage: 'The message that it answers',
  toRoute: 'The route that took it',
  program: 'A program',
  reply: 'The reply',
  replyHint: 'Its text without the mail quoted below and without a signature, as the event has it.',
  attachments: 'Attachments',
  attachmentsHint: 'They come from a stranger. Open only what you expect.',
  unreadable: 'Not all of it could be read.',
  gone: 'The content is no longer kept',
  goneHint: 'What was written in a mail is kept as long as content is. The rest stays.',
};

const temporary = 'The DNS could not be asked; it is not known';
const broken = 'What the domain publishes has an error';
const named = (domain: string | null): string => domain ?? 'the domain';
/** In front of a sentence. */
const first = (domain: string | null): string => domain ?? 'The domain';

/** What is said of SPF, DKIM, DMARC and ARC (RFC 8601). */
export const authentication = {
  title: 'Is it from whom it says',
  hint: 'Looked up when it came. A reply that passed through a mailing list or was forwarded may fail and be honest.',
  names: { spf: 'SPF', dmarc: 'DMARC', arc: 'ARC' },
  signature: (number: number, count: number): string => (count > 1 ? `DKIM ${number}` : 'DKIM'),
  words: {
    none: 'None',
    neutral: 'Neutral',
    pass: 'Pass',
    fail: 'Fail',
    softfail: 'Soft fail',
    policy: 'Policy',
    temperror: 'Not known',
    permerror: 'Error',
  },
  unsigned: 'It is not signed',
  spf: (result: string, domain: string | null): string => {
    if (result === 'pass') return `${first(domain)} lets this server send its mail`;
    if (result === 'fail') return `${first(domain)} does not let this server send its mail`;
    if (result === 'softfail') return `${first(domain)} probably does not let this server send its mail`;
    if (result === 'temperror') return temporary;
    if (result === 'permerror') return broken;
    return `${first(domain)} does not say which servers send its mail`;
  },
  dkim: (result: string, domain: string | null): string => {
    if (result === 'pass') return `Signed by ${named(domain)}, and not changed since`;
    if (result === 'fail') return `Names ${named(domain)}, which has not signed this, or it was changed since`;
    if (result === 'temperror') return temporary;
    return `The signature that names ${named(domain)} could not be used`;
  },
  dmarc: ({ result, policy, domain }: { result: string; policy: string | null; domain: string | null }): string => {
    if (result === 'pass') return `From is genuine: it is mail of ${named(domain)}`;
    if (result === 'temperror') return temporary;
    if (result === 'permerror') return 'From cannot be checked';
    if (result === 'none') return `${first(domain)} says nothing on mail that only pretends to be its own`;
    if (policy === 'reject') return `From is not proven, and ${named(domain)} asks to reject such mail`;
    if (policy === 'quarantine') return `From is not proven, and ${named(domain)} asks to take such mail for spam`;
    return `From is not proven; ${named(domain)} asks for nothing to be done`;
  },
  arc: {
    none: 'What servers on the way saw could not be checked',
    pass: 'Servers on the way sealed what they saw, and the seals are whole',
    fail: 'A seal of the servers on the way is broken',
  },
};

export const inboundRoutes = {
  title: 'Inbound routes',
  lead: 'Addresses that mail comes in for, and where your application gets it.',
  list: 'Inbound routes',
  create: 'New route',
  columns: { match: 'Mail for', target: 'Goes to', mx: 'MX record', checked: 'Checked', size: 'Largest mail' },
  webhooks: 'Webhooks that subscribe to Inbound',
  nowhere: 'Listed here only',
  empty: 'No inbound routes yet',
  emptyHint: 'A route takes mail for an address, a prefix or a whole domain, and turns each into an event.',
  never: 'Never',
};

export const routePage = {
  parent: 'Inbound routes',
  mail: 'Its mail',
  verify: 'Check now',
  edit: 'Edit',
  remove: 'Delete',
  removed: (match: string) => `The route ${match} is deleted.`,
  about: 'About',
  names: {
    match: 'Mail for',
    url: 'Posted to',
    webhook: 'Its webhook',
    events: 'Webhooks',
    size: 'Largest mail',
    id: 'Id',
    created: 'Created',
    updated: 'Changed',
  },
  toWebhook: 'Deliveries and secret',
  getIt: 'Those that subscribe to Inbound get it',
  doNot: 'Only the one of this route gets it',
  listedOnly: 'None gets it: it is listed here only',
  mx: 'MX record',
  found: 'Mail for this domain leads here.',
  ask: 'Publish this record where the DNS of your domain is kept. Mail that arrives is taken even before it is seen here.',
  every: 'This page looks at the DNS every 30 seconds, and the service does so by itself.',
  caution: 'The MX record of a domain decides where all of its mail goes. Use a subdomain, unless it has no mailboxes.',
  record: { type: 'Type', name: 'Name', priority: 'Priority', value: 'Value', published: 'Published now' },
  copyName: 'Copy the name',
  copyValue: 'Copy the value',
  lastCheck: 'Last check',
  notChecked: 'Not checked yet',
  sandbox: 'Routes of the sandbox take no mail from outside. “As code” shows the call that plays one in.',
};

export const routeForm = {
  createTitle: 'New inbound route',
  editTitle: 'Edit the route',
  match: 'Mail for',
  matchHint: 'One address; a prefix such as reply+*@in.shop.example; or *@in.shop.example for every address.',
  url: 'Post it to',
  urlHint: 'https:// or http://. It gets a webhook with a secret of its own. Leave empty to use your other webhooks.',
  events: 'Webhooks that subscribe to Inbound get it',
  size: 'Largest mail, in MB',
  sizeHint: 'Larger mail is refused to its sender. At most 25.',
  sizeBad: 'Must be a number from 0.001 to 25.',
  cancel: 'Cancel',
  create: 'Create the route',
  save: 'Save',
  saved: 'The route is saved.',
};
