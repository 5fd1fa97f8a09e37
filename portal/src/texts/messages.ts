/** Texts of the pages about messages. The status summary has its sentences in texts/answer.ts. */
export const messageList = {
  title: 'Messages',
  label: 'Messages, newest first',
  search: 'Search',
  searchHint: 'Address, subject, or tag:receipt',
  columns: { subject: 'Subject', to: 'Recipient', status: 'Status', tags: 'Tags', when: 'Accepted' },
  noSubject: '(no subject)',
  role: { to: '', cc: 'Cc', bcc: 'Bcc' },
  empty: 'No emails yet',
  emptyHint: 'Emails you send over the API or SMTP appear here instantly.',
  emptyLink: 'Send your first email',
  nothing: 'No emails match your filters',
  nothingHint: 'Try removing a filter or choosing a longer period.',
  clear: 'Clear filters',
  paused: 'No more matches so far. Older emails haven’t been searched yet.',
  searchOn: 'Keep searching',
  /** How many new messages a filter matches is unknown. */
  fresh(count: number, isFiltered: boolean): string {
    if (isFiltered) return 'Check for new messages';
    return count === 1 ? '1 new message' : `${count} new messages`;
  },
  connected: 'Updates automatically',
};

export const filters = {
  status: 'Status',
  anyStatus: 'All statuses',
  range: 'Accepted',
  ranges: {
    '': 'Any time',
    today: 'Today',
    '24h': 'Last 24 hours',
    '7d': 'Last 7 days',
    '30d': 'Last 30 days',
    between: 'Custom range…',
  },
  since: 'From',
  until: 'To',
  to: 'Recipient',
  toHint: 'Contains…',
  from: 'Sender',
  fromHint: 'Contains…',
  subject: 'Subject',
  subjectHint: 'Contains…',
  template: 'Template',
  anyTemplate: 'All templates',
  tags: 'Tags',
  tagsHint: 'Matches all of these tags',
  metadata: 'Metadata',
  metadataHint: 'key=value',
  metadataWrong: 'Use key=value, e.g. order=17.',
};

export const messagePage = {
  messages: 'Messages',
  title: 'Message',
  noSubject: '(no subject)',
  to: 'To',
  answer: 'Status summary',
  happened: 'Activity',
  facts: 'Details',
  content: 'Content',
};

export const timeline = {
  attempt: (number: number) => `Attempt ${number}`,
  at: (host: string) => `via ${host}`,
  noHost: 'no connection',
  address: 'Address',
  host: 'Server',
  tls: 'TLS',
  tlsNone: 'None (unencrypted)',
  tlsUnknown: 'None (no connection)',
  tlsBecause: (why: string) => `Not encrypted: ${why}`,
  tlsPolicy: 'TLS policy',
  tlsPolicies: {
    requireTls: 'Required by this message (requireTls)',
    dane: 'Required by the recipient’s domain (DANE)',
    'mta-sts': 'Required by the recipient’s domain (MTA-STS)',
    'mta-sts-testing': 'Not enforced (MTA-STS testing mode)',
    opportunistic: 'Opportunistic (used if the server supports it)',
  },
  took: 'Duration',
  reply: 'Response',
  dialogue: 'SMTP transcript',
  copyDialogue: 'Copy SMTP transcript',
  saveDialogue: 'Download SMTP transcript',
  noDialogue: 'No transcript: no connection was established.',
  client: 'Client',
  server: 'Server',
  atMs: (ms: number) => `${ms} ms`,
  outcomes: { delivered: 'Delivered', delayed: 'Deferred', bounced: 'Rejected' },
  next: (at: string, from: string, end: string) => `Next attempt ${at} (${from}). Expires ${end}.`,
  begins: (at: string) => `Scheduled for ${at}.`,
  byMachine: 'automated',
  took250: (host: string, seconds: string) => `Accepted by ${host} after ${seconds}.`,
  unsubscribed: {
    'one-click': 'One-click unsubscribe',
    mail: 'Unsubscribe by email',
  } as Record<string, string>,
  late: 'Asynchronous bounce (reported after acceptance)',
  waiting: 'No activity yet',
};

export const facts = {
  id: 'Message ID',
  headerId: 'Message-ID header',
  from: 'From',
  to: 'Recipient',
  role: 'Role',
  roles: { to: 'To', cc: 'Cc', bcc: 'Bcc' },
  tags: 'Tags',
  metadata: 'Metadata',
  template: 'Template',
  version: (version: number) => `version ${version}`,
  size: 'Size',
  request: 'API request',
  created: 'Accepted',
  sendAt: 'Scheduled for',
  nextAttempt: 'Next attempt',
  expires: 'Expires',
};

export const content = {
  tabs: { html: 'HTML', text: 'Text', headers: 'Headers', raw: 'Raw', files: 'Attachments' },
  tabsLabel: 'Email parts',
  gone: 'Content deleted',
  goneHint: 'Content is deleted after your content retention period, or immediately with retainContent: none.',
  goneShared: 'Content hidden',
  goneSharedHint: 'The sender didn’t share the content, or it has been deleted.',
  noHtml: 'No HTML part',
  noText: 'No plain-text part',
  noFiles: 'No attachments',
  large: (size: string) => `This message is ${size}.`,
  load: 'Load content',
  loading: 'Loading content…',
  download: 'Download',
  downloadName: (name: string) => `Download ${name}`,
  downloadRaw: 'Download .eml',
  cut: (shown: string, whole: string) => `Showing the first ${shown} of ${whole}`,
  unnamed: 'Untitled',
  headerList: 'Email headers',
  textOf: 'Email text',
  rawOf: 'Email source',
  caution: 'Attachments are downloaded, never opened in the portal.',
};

export const actions = {
  resend: 'Resend',
  resendEffect: (to: string) =>
    `Sends the stored content to ${to} again as a new message. This message doesn’t change.`,
  resent: 'Message resent',
  resentSuppressed: 'Not sent: the address is suppressed.',
  resentOpen: 'View new message',
  cancel: 'Cancel',
  cancelEffect: 'The message won’t be sent. You can resend it later as a new message.',
  cancelled: 'Message canceled',
  cancelConfirm: 'Cancel message',
  move: 'Reschedule',
  moveLabel: 'New send time',
  moveEffect: 'Up to 30 days ahead. A time in the past sends the message immediately.',
  moveConfirm: 'Reschedule',
  moved: (at: string) => `Rescheduled for ${at}`,
  lift: 'Remove suppression',
  liftEffect: (to: string) =>
    `You can email ${to} again. Do this only if the problem is fixed or the recipient asked for it: another bounce or complaint harms your reputation.`,
  lifted: 'Address removed from the suppression list',
};

const messagesOf = (count: number): string => (count === 1 ? '1 message' : `${count} messages`);

export const bulkActions = {
  resend: (count: number) => `Resend ${messagesOf(count)}`,
  resendEffect: (count: number) =>
    `Sends ${messagesOf(count)} again, as new ${count === 1 ? 'message' : 'messages'} with the stored content.`,
  resent: (count: number) => `${messagesOf(count)} resent`,
  move: (count: number) => `Reschedule ${messagesOf(count)}`,
  moveEffect: (count: number) => `Changes when ${messagesOf(count)} will be sent.`,
  moved: (count: number) => `${messagesOf(count)} rescheduled`,
  cancel: (count: number) => `Cancel ${messagesOf(count)}`,
  cancelEffect: (count: number) => `${messagesOf(count)} won’t be sent. You can resend canceled messages later.`,
  cancelled: (count: number) => `${messagesOf(count)} canceled`,
};

export const sharing = {
  share: 'Share',
  title: 'Share this message',
  lead: 'Anyone with the link can view this message’s status without signing in. Tags and metadata are hidden.',
  hideSubject: 'Hide subject',
  hideSubjectHint: 'Also hides the content, because it contains the subject.',
  hideContent: 'Hide content',
  pageTitle: 'Shared message',
  hiddenSubject: '(subject hidden)',
  readOnly: 'Read-only view, shared by the sender.',
};

export const shareList = {
  title: 'Shared links',
  open: 'Shared links',
  lead: 'Anyone with one of these links can view its message. Share a message on its page.',
  message: 'Message',
  openMessage: 'Open message',
  hidden: 'Hidden',
  nothingHidden: 'Nothing hidden',
  contentHidden: 'Content hidden',
  subjectHidden: 'Subject and content hidden',
  noneHint: 'Links you create with Share on a message appear here until they expire or are revoked.',
};
