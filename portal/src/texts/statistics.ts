/** Texts about statistics. */
export const statistics = {
  title: 'Statistics',
  lead: 'Rates of the period, and their change from the period before.',
  breakdown: 'Breakdown',
  groupBy: 'Group by',
  groups: {
    tag: 'Tag',
    template: 'Template',
    recipientDomain: 'Recipient domain',
    mailboxProvider: 'Mailbox provider',
  },
  /** Short forms, so that all of them fit on a phone. */
  choices: { tag: 'Tag', template: 'Template', recipientDomain: 'Domain', mailboxProvider: 'Provider' },
  noGroup: {
    tag: '(no tag)',
    template: '(no template)',
    recipientDomain: '(no domain)',
    mailboxProvider: '(no provider)',
  },
  /** Display names; others are shown as they are. */
  providers: {
    google: 'Google',
    microsoft: 'Microsoft',
    yahoo: 'Yahoo',
    apple: 'Apple',
    gmx: 'GMX and WEB.DE',
    't-online': 'T-Online',
  } as Record<string, string>,
  openMessages: 'View messages',
  others: 'Other',
  notes: {
    tag: 'An email with several tags counts once per tag.',
    mailboxProvider:
      'By the domain of the recipient, such as gmail.com. Company domains count as Other, even if a provider hosts them.',
  } as Partial<Record<string, string>>,
  none: 'No emails in this period',
  noneHint: 'Try a longer period.',
  noRate: '–',
  same: '±0',
  points: ' pts',
  percent: '%',
  columns: {
    accepted: 'Accepted',
    deliveryRate: 'Delivery rate',
    bounceRate: 'Bounce rate',
    complaintRate: 'Complaint rate',
    openRate: 'Opens',
    clickRate: 'Clicks',
  },
};
