/** What is read on the page of the sandbox inbox. */
export const inbox = {
  title: 'Inbox',
  lead: 'Emails sent in the sandbox, exactly as recipients would see them. Keeps the last 1,000 messages for 7 days.',
  list: 'Messages',
  filters: 'Filters',
  to: 'To (exact match)',
  subject: 'Subject',
  tag: 'Tag',
  clear: 'Clear filters',
  more: 'Load more',
  noSubject: '(no subject)',
  onItsWay: 'Sending',
  age: (time: string) => `${time} ago`,
  ageNow: 'just now',
  recipient: (address: string) => `to ${address}`,
  none: 'No emails yet',
  noneHint: 'Emails sent with a sandbox key appear here instantly.',
  firstSteps: 'Send a test email',
  noneFiltered: 'No emails match your filters',
  noneFilteredHint: 'New matching emails will appear here.',
  choose: 'Select an email',
  chooseHint: 'Preview it, extract links and codes, and check client compatibility.',
  back: 'Back to inbox',
  inLive: 'The inbox is only available in Sandbox',
  inLiveHint: 'Live emails are delivered to their recipients.',
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

export const play = {
  label: 'Simulate an outcome',
  hint: 'Choose an outcome or enter an SMTP response.',
  submit: 'Simulate',
  played: 'Outcome simulated. Events and webhooks were triggered.',
  choices: [
    ...['delivered', 'bounced', 'delayed', 'complained', 'suppressed'],
    ...['452 4.2.2 mailbox full', '550 5.1.1 no such user', '421 4.7.0 try again later', '554 5.7.1 blocked as spam'],
  ],
};

const some = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

export const clock = {
  open: 'Advance clock',
  title: 'Sandbox clock',
  hint: 'Runs everything due in that period, in order: retries, scheduled emails, expirations and webhooks. You can’t go back.',
  stands: 'Current sandbox time',
  by: 'Advance by',
  spans: { 60: '1 min', 900: '15 min', 3600: '1 h', 21600: '6 h', 86400: '1 d', 259200: '3 d', 604800: '7 d' },
  move: (span: string) => `Advance ${span}`,
  due: 'Due in this period',
  nothing: 'Nothing is due in this period.',
  attempts: (count: number) => some(count, 'attempt', 'attempts'),
  scheduled: (count: number) => some(count, 'scheduled email / scheduled emails'),
  expiries: (count: number) => some(count, 'expiration / expirations'),
  expiryHint: 'Delivered messages don’t expire; delayed ones are retried again.',
  webhookHint: 'Due webhook retries run too.',
  atLeast: 'More than 100 messages are due; counts are a minimum.',
  ran: (count: number) =>
    count === 0 ? 'Clock advanced. Nothing was due.' : `Clock advanced. ${some(count, 'attempt', 'attempts')} attempts ran.`,
};

export const asTest = {
  open: 'Copy as test',
  title: 'Wait for this email in a test',
  hint: 'Set POSTRIDER_KEY to a sandbox key. Use a unique address per test.',
  send: 'Trigger the email in your application here.',
  testName: 'the mail arrives',
};

export const checks = {
  good: 'No issues found',
  goodHint: 'This email should render correctly in all major clients.',
  noHtml: 'No HTML part to check.',
  levels: { bad: 'Fix', wait: 'Consider' },
  times: (count: number) => (count > 1 ? `${count} times` : ''),
  size: (kilobytes: number) => `${kilobytes} KB of 102 KB (Gmail clipping limit)`,
};

/** What each rule of html-checks.ts has found, and why that matters. */
export const rules = {
  tooLarge: ['HTML exceeds 102 KB — Gmail clips the message, including your unsubscribe link.', 'Gmail cuts it there and hides the rest, an unsubscribe link included.'],
  noText: ['Missing plain-text part — Improves deliverability and accessibility.', 'Filters trust such mail less, and some people read text only.'],
  noTitle: ['There is no title', 'Missing <title> — Used by screen readers and “view in browser”.'],
  noPreheader: [
    'There is no preheader',
    'Missing preheader — Inboxes show the first words of the body as preview text.',
  ],
  imageWithoutAlt: [
    'An image has no alt text',
    'Many programs hide images at first, and screen readers need words. Use alt="" for decoration.',
  ],
  emptyLink: ['A link leads nowhere', 'Empty link — The link has no destination.'],
  insecureLink: ['Insecure link (http) — Clients may show a warning.', 'Programs warn of it, and anybody on the way can read and change the page.'],
  externalStyles: [
    'External stylesheet — Gmail and Outlook don’t load external CSS.',
    'Gmail and Outlook load no style sheets: the mail is shown without them.',
  ],
  styleInBody: ['<style> in <body> — Some clients, including Gmail, only read styles in <head>.', 'Some programs, Gmail in parts, read styles in the head only.'],
  position: ['Styles use position', 'CSS position — Removed by Gmail and Outlook; layout may break.'],
  flex: ['Styles use flex', 'CSS flexbox — Not supported by Outlook for Windows. Use tables.'],
  grid: ['Styles use grid', 'CSS grid — Not supported by Gmail and Outlook. Use tables.'],
  video: ['There is video or audio', 'Video or audio — Most clients don’t play it. Link an image instead.'],
  form: ['There is a form', 'Form — Most clients remove forms or warn. Link to a page instead.'],
  svg: ['There is an svg', 'Gmail and Outlook do not show it. Use PNG.'],
  script: ['There is a script or a frame', 'Script or iframe — Removed by all clients and flagged by spam filters.'],
} as const satisfies Record<string, readonly [string, string]>;
