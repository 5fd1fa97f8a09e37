/** Texts about statistics. */
export const statistics = {
  title: 'Statistics',
  lead: 'Rates of the period, and their change from the period before.',
  breakdown: 'Breakdown',
  groupBy: 'Group by',
  groups: { tag: 'Tag', template: 'Template', recipientDomain: 'Recipient domain' },
  noGroup: { tag: '(no tag)', template: '(no template)', recipientDomain: '(no domain)' },
  others: 'Other',
  severalTags: 'An email with several tags counts once per tag.',
  none: 'No emails in this period',
  noneHint: 'Try a longer period.',
  noRate: '–',
  points: ' pts',
  percent: ' %',
  columns: {
    accepted: 'Accepted',
    deliveryRate: 'Delivery rate',
    bounceRate: 'Bounce rate',
    complaintRate: 'Complaint rate',
    openRate: 'Opens',
    clickRate: 'Clicks',
  },
};
