/** What is read on the overview. */
import { count } from '../parts/time.tsx';

export const ranges = {
  label: 'Time',
  names: { '24h': '24 hours', '7d': '7 days', '30d': '30 days', '90d': '90 days' },
  short: { '24h': '24 h', '7d': '7 d', '30d': '30 d', '90d': '90 d' },
  by: 'By',
  hour: 'Hour',
  day: 'Day',
};

export const overview = {
  title: 'Overview',
  span: (range: string) => `The last ${range}`,
  mail: 'Mail',
  mailLabel: 'Messages over time',
  accepted: 'Accepted',
  delivered: 'Delivered',
  bounced: 'Bounced',
  delayed: 'Delayed',
  complained: 'Complained',
  quiet: 'No mail in this time.',
  speed: 'Time to delivery',
  speedLabel: 'Time to delivery over time',
  half: 'Half within',
  most: '95% within',
  speedSpan: { hour: 'The newest hour with deliveries', day: 'The newest day with deliveries' },
  speedNone: 'Nothing was delivered in this time.',
  failing: 'Fails now',
  since: 'first',
  allIncidents: (number: number, isMore: boolean) => `All ${count(number)}${isMore ? '+' : ''} incidents`,
};

export const tiles = {
  label: 'Now',
  waiting: 'Waiting to be sent',
  waitingHint: 'queued, scheduled or delayed',
  today: 'Messages today',
  todayHint: 'since midnight UTC',
  webhooks: 'Webhooks',
  webhooksNone: 'none yet',
  webhooksWell: 'all taken',
  webhooksFail: (number: number) => `${count(number)} ${number === 1 ? 'fails' : 'fail'}`,
  refused: 'Refused requests today',
  refusedNone: 'every call was right',
  refusedSome: 'see why',
};

export const health = {
  title: 'Reputation',
  lead: (days: number) => `Of the mail that was answered in the last ${days} days.`,
  sandboxLead: (days: number) => `Of the simulated mail of the last ${days} days; no receiver saw it.`,
  bounces: 'Bounce rate',
  complaints: 'Complaint rate',
  bounds: (high: string, tooHigh: string) => `High from ${high}, too high from ${tooHigh}`,
  good: 'Good',
  warning: 'High',
  critical: 'Too high',
  few: (number: number, least: number) =>
    `Too few to tell: ${count(number)} of at least ${count(least)} messages were answered in this time.`,
};

export const newAccount = {
  title: 'No mail in the last 30 days',
  hint: 'First steps takes you from a test in the sandbox to mail that arrives. It takes ten minutes.',
  readerHint: 'Once the account sends mail, its numbers are here.',
  action: 'First steps',
};
