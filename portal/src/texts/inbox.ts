/** Texts of the sandbox inbox. */
export const inbox = {
  title: 'Inbox',
  lead: 'Emails sent in the sandbox. The last 1,000 are kept for 7 days.',
  list: 'Messages',
  filters: 'Filters',
  to: 'To (exact match)',
  subject: 'Subject',
  tag: 'Tag',
  more: 'Load more',
  noSubject: '(no subject)',
  onItsWay: 'Sending',
  recipient: (address: string) => `to ${address}`,
  none: 'No emails yet',
  noneHint: 'Emails sent with a sandbox key appear here instantly.',
  firstSteps: 'Send a test email',
  noneFiltered: 'No emails match your filters',
  noneFilteredHint: 'New matching emails will appear here.',
  choose: 'Select an email',
  chooseHint: 'Preview it, extract links and codes, and check client compatibility.',
  back: 'Back to inbox',
  inLive: 'Available in the sandbox only',
  inLiveHint: 'The inbox receives sandbox emails. Live emails are delivered to their recipients.',
  toSandbox: 'Open sandbox inbox',
  empty: 'Clear inbox',
  emptied: 'Inbox cleared',
};

export const mail = {
  from: 'From',
  to: 'To',
  sent: 'Sent',
  history: 'View message history',
  views: 'Email views',
  preview: 'Preview',
  text: 'Text',
  html: 'HTML',
  headers: 'Headers',
  checks: 'Checks',
  noText: 'No plain-text part.',
  contentGone: 'Content deleted.',
  found: 'Codes and links',
  codes: 'Codes',
  links: 'Links',
  copyCode: (code: string) => `Copy ${code}`,
  copyLink: 'Copy link',
};

export const simulate = {
  label: 'Simulate an outcome',
  hint: 'Choose an outcome or enter an SMTP response.',
  submit: 'Simulate',
  simulated: 'Outcome simulated. It creates events and calls webhooks as usual.',
  choices: [
    'delivered',
    'bounced',
    'delayed',
    'complained',
    'suppressed',
    '452 4.2.2 mailbox full',
    '550 5.1.1 no such user',
    '421 4.7.0 try again later',
    '554 5.7.1 blocked as spam',
  ],
};

const some = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

export const clock = {
  open: 'Advance clock',
  title: 'Sandbox clock',
  hint: 'Runs everything that is due in this period, in order: attempts, scheduled emails, expirations, and webhooks. You can’t move the clock back. To return to real time, reset the sandbox clock through the API, which deletes its emails.',
  stands: 'Current sandbox time',
  by: 'Advance by',
  spans: { 60: '1 min', 900: '15 min', 3600: '1 h', 21600: '6 h', 86400: '1 d', 259200: '3 d', 604800: '7 d' },
  move: (span: string) => `Advance ${span}`,
  due: 'Due in this period',
  nothing: 'Nothing is due in this period.',
  attempts: (count: number) => some(count, 'attempt', 'attempts'),
  scheduled: (count: number) => some(count, 'scheduled email', 'scheduled emails'),
  expiries: (count: number) => some(count, 'expiration', 'expirations'),
  expiryHint: 'Messages delivered before then don’t expire. Messages delayed again are retried again.',
  webhookHint: 'Webhook retries that are due run too.',
  atLeast: 'More than 100 messages are due. The counts are minimums.',
  ran: (count: number) =>
    count === 0 ? 'Clock advanced. Nothing was due.' : `Clock advanced. ${some(count, 'attempt', 'attempts')} ran.`,
};

export const asTest = {
  open: 'Copy as test',
  title: 'Wait for this email in a test',
  hint: 'Set POSTRIDER_KEY to a sandbox key of this account. Use an address that no other test uses.',
  send: 'Trigger the email in your application here.',
  testName: 'the email arrives',
};

export const checks = {
  good: 'No issues found',
  goodHint: 'Major email clients should render this email correctly.',
  noHtml: 'This email has no HTML part to check.',
  score: (score: number) => `${score} of 100`,
  scoreLabel: 'Score',
  points: (points: number) => `−${points}`,
  levels: { bad: 'Error', wait: 'Warning' },
  times: (count: number) => (count > 1 ? `${count} times` : ''),
  size: (kilobytes: number) => `${kilobytes} KB of 102 KB`,
};

/** The table of HTML and CSS features that some email clients do not support. */
export const support = {
  title: 'Support by email client',
  lead: 'This email uses HTML and CSS that some email clients ignore or change.',
  none: 'All known email clients support the HTML and CSS of this email.',
  feature: 'Feature',
  used: 'Uses',
  unsupported: 'Not supported by',
  partial: 'Partly supported by',
  notes: (count: number) => some(count, 'note', 'notes'),
  more: (count: number) => `Show ${some(count, 'partly supported feature', 'partly supported features')}`,
  source: 'Source:',
  sourceName: 'Can I email',
  updated: (day: string) => `, as of ${day}. Each feature links to its tests.`,
};

/** Names of the email clients in client-support.json. */
export const mailClients = {
  gmail: 'Gmail',
  outlook: 'Outlook',
  'apple-mail': 'Apple Mail',
  yahoo: 'Yahoo Mail',
  'samsung-email': 'Samsung Email',
  aol: 'AOL',
  protonmail: 'Proton Mail',
  fastmail: 'Fastmail',
  thunderbird: 'Thunderbird',
  gmx: 'GMX',
  'web-de': 'WEB.DE',
  't-online-de': 'T-Online',
};

/** Names of their apps. */
export const mailPlatforms = {
  'desktop-webmail': 'web',
  ios: 'iOS',
  android: 'Android',
  windows: 'classic',
  'outlook-com': 'new and web',
  macos: 'Mac',
};

/** What each rule of html-checks.ts found, and why it matters. */
export const rules = {
  tooLarge: ['HTML exceeds 102 KB', 'Gmail clips larger emails and hides the rest, including an unsubscribe link.'],
  noText: ['Missing plain-text part', 'A plain-text part improves deliverability and accessibility.'],
  noTitle: ['Missing <title>', 'Screen readers and “view in browser” use it as the name of the email.'],
  noPreheader: [
    'Missing preheader',
    'Inboxes show the first words of the body as preview text. A hidden first line sets them.',
  ],
  imageWithoutAlt: [
    'Image without alt text',
    'Many email clients block images at first, and screen readers read the text. Use alt="" for decorative images.',
  ],
  emptyLink: ['Empty link', 'The link has no destination.'],
  insecureLink: [
    'Insecure link (http)',
    'Email clients may show a warning, and the page can be read and changed in transit.',
  ],
  relativeLink: ['Relative link', 'Links in emails have no base URL. Use the complete URL, with https://.'],
  localLink: ['Link to a local host', 'Recipients can’t open it. It probably points to a development environment.'],
  addressLink: ['Link to an IP address', 'Spam filters treat links to IP addresses as phishing. Use a host name.'],
  shortLink: [
    'Shortened link',
    'Spam filters distrust link shorteners, which hide the destination. Link to your own domain.',
  ],
  placeholder: ['Unfilled placeholder', 'A variable of the template was not replaced with a value.'],
  dataImage: ['Image in a data: URL', 'Gmail and Outlook don’t show it. Attach it with a Content-ID, or link to it.'],
  imageOnly: [
    'Almost only images',
    'Spam filters distrust email without text, and recipients who block images see nothing.',
  ],
  externalStyles: ['External stylesheet', 'Gmail and Outlook don’t load external CSS.'],
  styleInBody: [
    '<style> in <body>',
    'Some email clients, including some versions of Gmail, only read styles in <head>.',
  ],
  position: ['CSS position', 'Gmail and Outlook remove it, so the layout may break.'],
  flex: ['CSS flexbox', 'Outlook for Windows doesn’t support it. Use tables.'],
  grid: ['CSS grid', 'Gmail and Outlook don’t support it. Use tables.'],
  video: ['Video or audio', 'Most email clients don’t play it. Link an image to a page that does.'],
  form: ['Form', 'Most email clients remove forms or show a warning. Link to a page with the form instead.'],
  svg: ['SVG image', 'Gmail and Outlook don’t show it. Use PNG.'],
  script: ['Script or iframe', 'Email clients remove it, and spam filters flag it.'],
} as const satisfies Record<string, readonly [string, string]>;
