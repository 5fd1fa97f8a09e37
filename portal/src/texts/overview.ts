/** Texts of the overview. */
import { count } from '../parts/time.tsx';

export const ranges = {
  label: 'Period',
  names: { '24h': '24 hours', '7d': '7 days', '30d': '30 days', '90d': '90 days' },
  short: { '24h': '24 h', '7d': '7 d', '30d': '30 d', '90d': '90 d' },
  by: 'Group by',
  hour: 'Hour',
  day: 'Day',
};

export const overview = {
  title: 'Overview',
  span: (range: string) => `Last ${range}`,
  mail: 'Emails',
  mailLabel: 'Email volume',
  accepted: 'Accepted',
  delivered: 'Delivered',
  bounced: 'Bounced',
  delayed: 'Delayed',
  complained: 'Complaints',
  quiet: 'No emails in this period',
  speed: 'Delivery time',
  speedLabel: 'Delivery time',
  half: 'Median (p50)',
  most: 'p95',
  speedSpan: { hour: 'Most recent hour', day: 'Most recent day' },
  speedNone: 'No deliveries in this period',
  failing: 'Active incidents',
  since: 'started',
  allIncidents: (number: number, isMore: boolean) => `All ${count(number)}${isMore ? '+' : ''} incidents`,
};

export const summary = {
  label: (range: string) => `Last ${range}`,
  deliveryRate: 'Delivery rate',
  deliveryRateHint: 'Delivered out of delivered and bounced',
  accepted: 'Accepted',
  bounceRate: 'Bounce rate',
  complaintRate: 'Complaint rate',
  /** Shown for a rate without messages. */
  none: '–',
  noneHint: 'No outcomes in this period',
  versus: (change: string, range: string) => `${change} vs. previous ${range}`,
  same: (range: string) => `Same as previous ${range}`,
  noPrevious: 'No earlier data',
  points: (points: string) => `${points} pts`,
};

export const tiles = {
  label: 'Now',
  waiting: 'Queued',
  waitingHint: 'queued, scheduled, or delayed',
  today: 'Sent today',
  todayHint: 'since midnight UTC',
  webhooks: 'Webhooks',
  webhooksNone: 'Not set up',
  webhooksWell: 'All healthy',
  webhooksFail: (number: number) => `${count(number)} failing`,
  refused: 'Failed requests today',
  refusedNone: 'No errors',
  refusedSome: 'View errors',
};

export const health = {
  title: 'Reputation',
  lead: (days: number) => `Last ${days} days`,
  sandboxLead: (days: number) => `Simulated emails, last ${days} days`,
  bounces: 'Bounce rate',
  complaints: 'Complaint rate',
  bounds: (high: string, tooHigh: string) => `Warning at ${high}, limit ${tooHigh}`,
  good: 'Good',
  warning: 'Warning',
  critical: 'Critical',
  few: (number: number, least: number) => `Not enough data (${count(number)} of ${count(least)} messages)`,
};

export const newAccount = {
  title: 'No emails in the last 30 days',
  hint: 'Send a test email, then go live. It takes about ten minutes.',
  readerHint: 'Statistics appear once this account starts sending.',
  action: 'Get started',
};
