/** What is read on the page of the sandbox inbox. */
export const inbox = {
  title: 'Inbox',
  lead: 'Mail that was sent in the sandbox, as its recipients would get it. The last 1,000 messages of the last 7 days.',
  list: 'Messages',
  filters: 'Filters',
  to: 'To (whole address)',
  subject: 'Subject',
  tag: 'Tag',
  clear: 'Clear filters',
  more: 'Show more',
  noSubject: '(no subject)',
  onItsWay: 'On its way',
  age: (time: string) => `${time} ago`,
  ageNow: 'now',
  recipient: (address: string) => `to ${address}`,
  none: 'No mail yet',
  noneHint: 'What is sent with a sandbox key comes here at once.',
  firstSteps: 'Send one now',
  noneFiltered: 'No mail matches these filters',
  noneFilteredHint: 'New ones that match will come here.',
  choose: 'Choose a mail',
  chooseHint: 'It is shown here, with its links and codes, and what mail programs will make of it.',
  back: 'All mail',
  inLive: 'The inbox belongs to the sandbox',
  inLiveHint: 'Live mail goes to its recipients and is never kept here.',
  toSandbox: 'Go to the sandbox inbox',
  empty: 'Empty the inbox',
  emptied: 'Inbox emptied',
};

export const mail = {
  from: 'From',
  to: 'To',
  sent: 'Sent',
  history: 'All that happened to it',
  views: 'Views of the mail',
  preview: 'Preview',
  text: 'Text',
  html: 'HTML',
  headers: 'Headers',
  checks: 'Checks',
  noText: 'This mail has no text part.',
  contentGone: 'The content of this mail is not kept any more.',
  found: 'Found in it',
  codes: 'Codes',
  links: 'Links',
  copyCode: (code: string) => `Copy ${code}`,
  copyLink: 'Copy the link',
};

export const play = {
  label: 'What happens to it next',
  hint: 'An outcome, or the reply of a server.',
  submit: 'Play it',
  played: 'Played. Events and webhooks follow as always.',
  choices: [
    ...['delivered', 'bounced', 'delayed', 'complained', 'suppressed'],
    ...['452 4.2.2 mailbox full', '550 5.1.1 no such user', '421 4.7.0 try again later', '554 5.7.1 blocked as spam'],
  ],
};

const some = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`;

export const clock = {
  open: 'Move the clock',
  title: 'The clock of the sandbox',
  hint: 'What is due until then happens now, in order: attempts, scheduled mail, expiry, webhooks. The clock never goes back.',
  stands: 'It stands at',
  by: 'Move it by',
  spans: { 60: '1 min', 900: '15 min', 3600: '1 h', 21600: '6 h', 86400: '1 d', 259200: '3 d', 604800: '7 d' },
  move: (span: string) => `Move by ${span}`,
  due: 'Due in this time',
  nothing: 'No message is due in this time.',
  attempts: (count: number) => some(count, 'attempt', 'attempts'),
  scheduled: (count: number) => some(count, 'scheduled mail', 'scheduled mails'),
  expiries: (count: number) => some(count, 'expiry', 'expiries'),
  expiryHint: 'A message that is delivered before does not expire. One that is delayed again has further attempts.',
  webhookHint: 'Retries of webhooks that are due are sent, too.',
  atLeast: 'There are more than 100 such messages; at least these are due.',
  ran: (count: number) =>
    count === 0 ? 'Moved. Nothing had to run.' : `Moved. ${some(count, 'attempt', 'attempts')} ran.`,
};

export const asTest = {
  open: 'Copy as test',
  title: 'A test that waits for this mail',
  hint: 'With a sandbox key of the account in POSTRIDER_KEY. Use an address that no other test uses.',
  send: 'Have your application send the mail here.',
  testName: 'the mail arrives',
};

export const checks = {
  good: 'Nothing found',
  goodHint: 'Mail programs will show this mail as it was meant, as far as these rules know.',
  noHtml: 'This mail has no html, so there is nothing to check.',
  levels: { bad: 'Fix', wait: 'Consider' },
  times: (count: number) => (count > 1 ? `${count} times` : ''),
  size: (kilobytes: number) => `${kilobytes} KB of 102 KB`,
};

/** What each rule of html-checks.ts has found, and why that matters. */
export const rules = {
  tooLarge: ['The html is larger than 102 KB', 'Gmail cuts it there and hides the rest, an unsubscribe link included.'],
  noText: ['There is no text part', 'Filters trust such mail less, and some people read text only.'],
  noTitle: ['There is no title', 'Screen readers and “view in browser” show the <title> as the name of the mail.'],
  noPreheader: [
    'There is no preheader',
    'Lists of mail show the first words of the body. A hidden first line says what they shall show.',
  ],
  imageWithoutAlt: [
    'An image has no alt text',
    'Many programs hide images at first, and screen readers need words. Use alt="" for decoration.',
  ],
  emptyLink: ['A link leads nowhere', 'It looks like a link, and a click does nothing.'],
  insecureLink: ['A link is http', 'Programs warn of it, and anybody on the way can read and change the page.'],
  externalStyles: [
    'Styles come from elsewhere',
    'Gmail and Outlook load no style sheets: the mail is shown without them.',
  ],
  styleInBody: ['There is a <style> in the body', 'Some programs, Gmail in parts, read styles in the head only.'],
  position: ['Styles use position', 'Gmail and Outlook take it out, and things lie where they were not meant to.'],
  flex: ['Styles use flex', 'Outlook on Windows does not know it and stacks everything. Tables work everywhere.'],
  grid: ['Styles use grid', 'Gmail and Outlook do not know it and stack everything. Tables work everywhere.'],
  video: ['There is video or audio', 'Most programs do not play it. Link an image to a page that does.'],
  form: ['There is a form', 'Most programs take it out or warn of it. Link to a page with the form.'],
  svg: ['There is an svg', 'Gmail and Outlook do not show it. Use PNG.'],
  script: ['There is a script or a frame', 'Every program takes it out, and filters distrust such mail.'],
} as const satisfies Record<string, readonly [string, string]>;
